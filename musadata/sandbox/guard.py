"""The trusted process between a call and everything else: it sets up the cell, watches the call, ends it and reports.

In a cell it is the first process, so that everything the call has started dies with it. Where the system has no
namespaces it adopts the call's orphans instead and hunts them down.
"""

import ctypes
import os
import selectors
import shutil
import signal
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from musadata.sandbox import confine
from musadata.sandbox.child import OUT_OF_MEMORY_EXIT, run_call
from musadata.sandbox.limits import Limits
from musadata.sandbox.watch import Watch
from musadata.sandbox.wire import WireError, receive_frame, send_frame

_POLL_SECONDS = 0.1
_MAX_FILES = 1000
_SET_CHILD_SUBREAPER = 36


def guard_call(
    request: dict[str, Any], channel: socket.socket, control: socket.socket, folders: list[str] | None
) -> NoReturn:
    """Carry out one request in this freshly forked process; the report goes through `control`.

    `folders` are readable in the cell; None means that there are no cells here.
    """
    limits = Limits(**request["limits"])
    try:
        os.setsid()
        if folders is not None:
            _guard_in_cell(request, limits, channel, control, folders)
        else:
            _guard_plainly(request, limits, channel, control)
    except (OSError, WireError) as error:
        _report_trouble(control, error)
    os._exit(0)


def _report_trouble(control: socket.socket, error: Exception) -> None:
    try:
        send_frame(control, {"how": "infra", "code": 0, "output": f"{type(error).__name__}: {error}"})
    except OSError:
        os._exit(1)  # nobody listens any more


def _guard_in_cell(
    request: dict[str, Any], limits: Limits, channel: socket.socket, control: socket.socket, folders: list[str]
) -> None:
    confine.die_with_parent(0)
    _, files = receive_frame(control, max_blobs=limits.file_mb << 20)
    confine.furnish_cell(limits, folders)
    _watch_call(request, limits, files, channel, control, Path(confine.SCRATCH), 2, confine.kill_all)


def _guard_plainly(request: dict[str, Any], limits: Limits, channel: socket.socket, control: socket.socket) -> None:
    confine.die_with_parent(os.getppid())
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _, files = receive_frame(control, max_blobs=limits.file_mb << 20)
    scratch = Path(tempfile.mkdtemp(prefix="musadata-"))
    watch = Watch(limits, whole_cell=False)
    try:
        _watch_call(request, limits, files, channel, control, scratch, watch.user_tasks(), watch.kill_descendants)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@dataclass
class _Call:
    """A running call as its guard sees it."""

    pid: int
    limits: Limits
    pipe: int
    control: socket.socket
    watch: Watch
    output: bytearray = field(default_factory=bytearray)
    overflow: bool = False
    paused: bool = False
    waited: float = 0.0


def _watch_call(
    request: dict[str, Any],
    limits: Limits,
    files: dict[str, bytes],
    channel: socket.socket,
    control: socket.socket,
    scratch: Path,
    spare: int,
    kill_rest: Callable[[], None],
) -> None:
    for name, data in files.items():
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    reader, writer = os.pipe()
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become_call(request, limits, channel, writer, scratch, spare, guard)
    channel.close()
    os.close(writer)
    os.set_blocking(reader, False)
    call = _Call(pid, limits, reader, control, Watch(limits, whole_cell=guard == 1))
    how, code = _wait(call)
    kill_rest()
    _drain(call)
    if call.overflow:
        how = "output"
    left = _collect(scratch, set(files), limits)
    if left is None:
        how, left = "output", {}
    text = call.output.decode("utf-8", "replace")
    send_frame(control, {"how": how, "code": code, "output": text}, left)


def _become_call(
    request: dict[str, Any], limits: Limits, channel: socket.socket, writer: int, scratch: Path, spare: int, guard: int
) -> NoReturn:
    """The forked process that will run the function: close everything else, restrict the process, run."""
    try:
        nothing = os.open("/dev/null", os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        kept = channel.fileno()
        os.closerange(3, kept)
        os.closerange(kept + 1, 4096)
        os.setsid()
        os.chdir(scratch)
        os.environ["HOME"] = os.environ["TMPDIR"] = str(scratch)
        confine.die_with_parent(guard)
        confine.restrict_process(limits, spare, request["local_sockets"])
    except BaseException as error:
        os.write(2, f"sandbox: {error}\n".encode())
        os._exit(1)
    run_call(request["function"], request["arguments"], channel)


def _wait(call: _Call) -> tuple[str, int]:
    """Watch until the call ends or must be ended. Returns how it ended, and its exit code or signal."""
    descriptor = os.pidfd_open(call.pid)
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        selector.register(call.pipe, selectors.EVENT_READ)
        selector.register(call.control, selectors.EVENT_READ)
        last = time.monotonic()
        while True:
            ready = {key.fileobj for key, _ in selector.select(_POLL_SECONDS)}
            if descriptor in ready:
                break
            if call.pipe in ready and not _drain(call):
                selector.unregister(call.pipe)
            if call.control in ready:
                _read_pause(call)
            now = time.monotonic()
            if now - last >= _POLL_SECONDS or call.overflow:
                reason = _reason_to_end(call, now - last)
                last = now
                if reason:
                    os.kill(call.pid, signal.SIGKILL)
                    os.waitpid(call.pid, 0)
                    os.close(descriptor)
                    return reason, 0
    os.close(descriptor)
    _, status, usage = os.wait4(call.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return _how(code, usage.ru_utime + usage.ru_stime, call.limits), abs(code)


def _reason_to_end(call: _Call, passed: float) -> str:
    if call.overflow:
        return "output"
    if call.paused:
        return ""
    call.waited += passed
    if call.waited > call.limits.wall_seconds:
        return "timeout"
    return call.watch.reason_to_end(passed)


def _how(code: int, cpu_seconds: float, limits: Limits) -> str:
    if code == OUT_OF_MEMORY_EXIT:
        return "memory"
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu_seconds >= limits.seconds):
        return "timeout"
    if code == -signal.SIGKILL:
        return "killed"  # from outside, since calls may not send it: somebody, or the kernel for want of memory
    return "exit" if code >= 0 else "signal"


def _read_pause(call: _Call) -> None:
    """The trusted side says when the call waits for it (P) and goes on (R); when that side is gone, so is the call."""
    word = call.control.recv(1)
    if not word:
        os.kill(call.pid, signal.SIGKILL)
    call.paused = word == b"P"


def _drain(call: _Call) -> bool:
    """Read what was printed; False at its end."""
    while True:
        try:
            data = os.read(call.pipe, 65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        room = (call.limits.output_kb << 10) - len(call.output)
        call.output += data[: max(room, 0)]
        if len(data) > room:
            call.overflow = True
            return False


def _collect(scratch: Path, given: set[str], limits: Limits) -> dict[str, bytes] | None:
    """The regular files that the call left, without those it was given; None if there are more than it may leave."""
    left: dict[str, bytes] = {}
    room = limits.file_mb << 20
    for folder, _, names in os.walk(scratch):
        for name in sorted(names):
            path = Path(folder, name)
            relative = str(path.relative_to(scratch))
            if relative in given or not relative.isprintable():
                continue
            try:
                about = path.lstat()
                if not stat.S_ISREG(about.st_mode):
                    continue
                room -= about.st_size
                if room < 0 or len(left) >= _MAX_FILES:
                    return None
                left[relative] = path.read_bytes()
            except OSError:
                continue
    return left
