"""The trusted side: starts the warm server, sends calls to it, and turns what comes back into an `Outcome`."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from musadata.errors import Cancelled, MusadataError, Outage
from musadata.sandbox.cancellation import current_cancellation
from musadata.sandbox.conversation import GRACE_SECONDS, Conversation, Serve, converse
from musadata.sandbox.forked import ForkedProcess, has_process_descriptors
from musadata.sandbox.limits import Limits, Outcome
from musadata.sandbox.wire import WireError, receive_frame, send_frame

_BOOT = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from musadata.sandbox.server import main
main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "template", sys.argv[5:])
"""
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "MUSA_HOME", "CC", "CXX")
_SET = {
    "HOME": "/tmp/scratch",
    "TMPDIR": "/tmp",
    "USER": "nobody",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # ask for huge pages: fewer to fault in, fewer to copy in a fork
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # else looking for a device before the fork forbids it after
}
_START_SECONDS = 300.0
_PAUSE_SECONDS = (0.0, 1.0, 4.0)  # before each try of a call that the machine, not the call, has ended
_ALONE_SECONDS = 30.0  # how long a second try waits for the other calls to end

_templates: list[tuple[subprocess.Popen[bytes], socket.socket]] = []  # one at the most


def start_ahead(modules: Iterable[str] = ("torch",)) -> None:
    """Let a process import `modules`, once for all sandboxes that are opened later in this process and its forks."""
    if not _templates and has_process_descriptors():
        _templates.append(_start("template", modules))


def _fork_template() -> tuple[ForkedProcess, socket.socket] | None:
    """A warm process forked from the template as soon as that is ready; None if there is no template."""
    if not _templates:
        return None
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            socket.send_fds(_templates[0][1], [b"f"], [theirs.fileno()])
        except OSError:  # it has ended
            _templates.clear()
            ours.close()
            return None
    return ForkedProcess(), ours


def _start(kind: str = "server", modules: Iterable[str] = ()) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A process that imports `modules` and then waits for a sandbox's hello; a template waits for sockets of such."""
    ours, theirs = socket.socketpair()
    environment = {**{name: os.environ[name] for name in _PASSED_ON if name in os.environ}, **_SET}
    path = [str(Path(entry).absolute()) for entry in sys.path]
    command = [sys.executable, "-s", "-P", "-c", _BOOT, json.dumps(path), str(theirs.fileno()), str(os.getpid()), kind]
    with theirs:
        process = subprocess.Popen(
            [*command, *modules],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            process_group=0,
        )
    return process, ours


_REMEDY = (
    "foreign code can be locked in where user namespaces are allowed (in a container: docker run --cap-add SYS_ADMIN "
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined; on Ubuntu: sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0); to run it under resource limits alone, say --unsandboxed or set "
    "MUSADATA_SANDBOX=plain"
)


def allow_plain() -> None:
    """Let calls of this process, and of those that it starts, run under resource limits alone: `--unsandboxed`."""
    os.environ["MUSADATA_SANDBOX"] = "plain"


def _is_plain() -> bool:
    """Whether the user wants calls to run under resource limits alone."""
    return os.environ.get("MUSADATA_SANDBOX") == "plain"


class _Lost(Exception):
    """A call was ended from outside, so its own outcome is unknown."""


class _Turns:
    """Admits any number of calls at a time, or one call alone that is tried again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._alone = False

    @contextlib.contextmanager
    def take(self, alone: bool) -> Iterator[None]:
        """One turn. A call that must run alone waits for the others, with a limit, since they may wait for it."""
        with self._changed:
            free = lambda: not self._alone and not (alone and self._running)  # noqa: E731
            self._changed.wait_for(free, _ALONE_SECONDS)
            self._running += 1
            self._alone = self._alone or alone
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._alone = self._alone and not alone
                self._changed.notify_all()


class Sandbox:
    """A warm process from which every call is forked, locked in, and killed whole at its end.

    Serves any number of calls at a time, from as many threads. `preload` names modules to import once, `setup` a
    "module:function" to run once after that; `readable` are further folders and `devices` further device files that
    calls may see. Calls of root run as nobody, so what they need must be readable for everybody.

    Raises:
        MusadataError: on entering, when the warm process does not start.
    """

    def __init__(
        self,
        preload: Iterable[str] = ("torch",),
        *,
        setup: str | None = None,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        readable: Iterable[str | os.PathLike[str]] = (),
        devices: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
    ):
        self._preload = list(preload)
        self._setup = setup
        self._limits = limits
        self._readable = [os.fspath(path) for path in readable]
        self._devices = list(devices)
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._sock: socket.socket | None = None
        self._awaited = False
        self._closed = 0  # how often
        self._turns = _Turns()
        self._lock = threading.RLock()  # held while the warm process starts or is given a request
        self.namespaces = False

    def __enter__(self) -> Self:
        for pause in _PAUSE_SECONDS:
            time.sleep(pause)
            try:
                self._make_ready()
                return self
            except _Lost as error:
                cause = str(error)
        raise _outage(cause)

    def _make_ready(self) -> None:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self._spawn()
            if not self._awaited:
                self._await_ready()

    def launch(self) -> None:
        """Start the warm process without waiting for it; the first call waits, or entering the sandbox."""
        with self._lock:
            if self._process is None:
                self._spawn()

    def close(self) -> None:
        """End the warm process, and with it all calls; a call after that starts another."""
        with self._lock:
            self._closed += 1
            self._stop()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _spawn(self) -> None:
        self._process, self._sock = _fork_template() or _start()
        hello = {
            "environment": self._environment,
            "preload": self._preload,
            "setup": self._setup,
            "readable": self._readable,
            "devices": self._devices,
            "plain": _is_plain(),
        }
        with contextlib.suppress(OSError):  # noticed when it does not answer
            send_frame(self._sock, hello)

    def _await_ready(self) -> None:
        ours = self._sock
        assert ours is not None
        ours.settimeout(_START_SECONDS)
        try:
            if isinstance(self._process, ForkedProcess):
                self._process.found(receive_frame(ours)[0]["pid"])
            ready, _ = receive_frame(ours)
        except (OSError, WireError) as error:
            self._stop()
            raise _Lost("its warm process did not start") from error
        if not ready["ready"]:
            self._stop()
            about = ready["error"]
            if about["error_type"] == Outage.__name__:
                raise Outage(about["message"])
            if about["error_type"] == MusadataError.__name__:  # says what to do
                raise MusadataError(about["message"])
            what = f"its warm process could not be set up ({about['error_type']}: {about['message']})"
            raise MusadataError(f"{what}\n{about['traceback']}", where="sandbox")
        ours.settimeout(None)
        self._awaited = True
        self.namespaces = ready["namespaces"]
        if not self.namespaces and not _is_plain():
            self._stop()
            raise MusadataError(f"this system gives no namespaces ({ready['why']})", where="sandbox", remedy=_REMEDY)

    def _stop(self) -> None:
        if self._sock is not None:
            self._sock.close()
        if self._process is not None:
            self._process.kill()  # what it has started dies with it
            self._process.wait()
        self._sock = self._process = None
        self._awaited = False

    def call(
        self,
        function: str,
        *arguments: Any,
        limits: Limits | None = None,
        files: Mapping[str, bytes] | None = None,
        serve: Serve | Conversation | None = None,
    ) -> Outcome:
        """Run "module:function" with plain JSON arguments in a fresh locked-in process.

        `files` lie in its working directory; what it leaves there comes back in `Outcome.files`. `serve` answers what
        the call asks by `musadata.sandbox.ask`; bytes and open files in an answer travel as they are.

        A call that something outside has ended is carried out again, alone and after a pause; so is one that has run
        out of memory, once, since others may have held it. A call with `serve` is not: what was answered cannot be
        taken back, so its caller tries again.

        Raises:
            Cancelled: the sandbox was closed during the call, or this thread's work is cancelled.
            Outage: the machine failed, which says nothing about the call.
            MusadataError: the sandbox cannot be set up.
        """
        limits = limits or self._limits
        conversation = serve if isinstance(serve, Conversation) else Conversation(serve)
        closed, confirmed = self._closed, serve is not None
        cancellation = current_cancellation()
        cause = ""
        for attempt, pause in enumerate(_PAUSE_SECONDS):
            with self._turns.take(alone=attempt > 0):
                time.sleep(pause)
                try:
                    if cancellation is not None:
                        cancellation.check()
                    outcome = self._try(function, list(arguments), limits, dict(files or {}), conversation)
                    if cancellation is not None:
                        cancellation.check()
                except _Lost as error:
                    cause = str(error)
                    if self._closed != closed:
                        raise Cancelled("was closed during a call", where="sandbox") from error
                    if serve is not None:
                        break
                    continue
            if outcome.status != "memory" or confirmed:
                return outcome
            confirmed = True
        raise _outage(cause)

    def _try(
        self, function: str, arguments: list[Any], limits: Limits, files: dict[str, bytes], serve: Conversation
    ) -> Outcome:
        """One try. Raises `_Lost` where something outside has ended it."""
        self._make_ready()
        process = self._process
        try:
            return self._call(function, arguments, limits, files, serve)
        except (WireError, OSError) as error:
            with self._lock:
                if self._process is process:  # else another call has seen it first
                    self._stop()
            raise _Lost(f"lost its warm process ({error})") from error

    def _call(
        self, function: str, arguments: list[Any], limits: Limits, files: dict[str, bytes], serve: Conversation
    ) -> Outcome:
        channel, far_channel = socket.socketpair()
        control, far_control = socket.socketpair()
        with channel, control:
            request: dict[str, Any] = {
                "function": function,
                "arguments": arguments,
                "limits": dataclasses.asdict(limits),
                "local_sockets": bool(self._devices),
            }
            with far_channel, far_control, self._lock:
                if self._sock is None:
                    raise WireError("the warm process has ended")
                socket.send_fds(self._sock, [b"c"], [far_channel.fileno(), far_control.fileno()])
                send_frame(self._sock, request)
            control.settimeout(limits.wall_seconds + GRACE_SECONDS)
            with contextlib.suppress(BrokenPipeError):
                send_frame(control, {}, files)
            result, is_late = converse(channel, control, serve, limits.file_mb << 20)
            if is_late:
                control.shutdown(socket.SHUT_WR)  # the guard takes it for our end, and ends the call
            report, left = receive_frame(control, max_blobs=limits.file_mb << 20)
        if is_late:
            report["how"] = "timeout"
        if report["how"] == "infra":
            raise _Lost(f"could not carry out a call ({report['output']})")
        if report["how"] == "killed":
            raise _Lost("a process of a call was killed from outside")
        if result.get("environment") is True and serve.serve is None:  # whom nothing hostile answers
            what = f"cannot import what it needs ({result.get('error_type')}: {result.get('message')})"
            raise Outage(what[:500], where=function, remedy=_REINSTALL)
        return _outcome(report, result, left)


_REINSTALL = "mend this Python's packages, as with pip install --constraint constraints.txt, and run it again"


def _outage(cause: str) -> Outage:
    return Outage(cause, where="sandbox", remedy="free some memory and run the same command again")


def _outcome(report: dict[str, Any], result: dict[str, Any], files: dict[str, bytes]) -> Outcome:
    how, code, printed = report["how"], int(report["code"]), str(report["output"])
    if how in ("timeout", "memory", "output"):
        return Outcome(how, message=_LIMIT_MESSAGES[how], stderr=printed, files=files)
    if how == "signal":
        name = signal.Signals(code).name if code in set(signal.Signals) else f"signal {code}"
        return Outcome("crash", message=f"killed by {name}", stderr=printed, files=files)
    if "value" in result:
        return Outcome("ok", value=result["value"], stderr=printed, files=files)
    if "error_type" in result:
        kind, message = str(result["error_type"]), str(result.get("message", ""))
        status = "memory" if _is_memory(kind, message) else "error"
        trace = str(result.get("traceback", ""))
        return Outcome(status, None, kind, message, trace, printed, files)
    return Outcome("crash", message=f"ended with exit code {code} before its result", stderr=printed, files=files)


_LIMIT_MESSAGES = {
    "timeout": "used more time than it may",
    "memory": "used more memory than it may",
    "output": "printed or wrote more than it may",
}


def _is_memory(kind: str, message: str) -> bool:
    return kind == "MemoryError" or "can't allocate memory" in message or "std::bad_alloc" in message
