"""Running a compiler on hostile sources: with limits, in a process group of its own, which is killed at the end.

The group also dies with this process, however that ends: a process of the group waits for the end of its input, which
is a pipe that only this process can write to.
"""

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from musadata.errors import Outage
from musadata.verifier.compilation.compile_errors import CompileError


@dataclass(frozen=True)
class CompileLimits:
    """What one compilation may take.

    Attributes:
        seconds: CPU time per process, and a third of that of all. A busy machine may take longer by the clock.
        memory_mb: address space per process.
        output_mb: size of any file that is written, diagnostics and the artifact included.
    """

    seconds: int = 120
    memory_mb: int = 3072
    output_mb: int = 64

    @classmethod
    def of_seconds(cls, seconds: float, memory_mb: int = 3072) -> Self:
        """With at least one whole second."""
        return cls(max(1, round(seconds)), memory_mb)


@dataclass(frozen=True)
class Finished:
    """`code` is the exit status, negative for a signal; `limit` names the limit that was hit, or is empty."""

    code: int
    stderr: str
    limit: str = ""

    @property
    def failure(self) -> str:
        """What the command said if it failed; empty if it did not."""
        return "" if self.code == 0 else self.stderr or f"exit code {self.code}"


# The shell sets the limits, so that no Python code runs between fork and exec. Compilers have a lower priority than
# candidates that are executed: one that is timed, and holds the device, must not wait for a core. What the shell itself
# says ("Killed") is no part of the compiler's errors.
_SCRIPT = """\
exec 3<&0 4>&2 2>/dev/null
ulimit -t "$1"; ulimit -v "$2"; ulimit -f "$3"; ulimit -c 0; shift 3
(read -r _ <&3; kill -KILL 0) &
(exec nice -n 10 "$@" </dev/null 2>&4 3<&- 4>&-)
code=$?
kill -KILL $!; wait
exit $code
"""
_SIGNALLED = 128  # a shell's exit status for a command that a signal ended is this plus the signal
_MOST_STDERR = 1 << 20
PAUSE_SECONDS = (0.0, 1.0, 4.0)  # before each try of what the machine has ended
_ALL_PROCESSES = 3  # times the limit of one
_LOOK_AFTER = 1.0  # times their limit, by the clock
_LEAST_SHARE = 0.002  # of their limit, between two looks: one that gets less waits for something else than a core
_NEARLY = 0.9  # of the limit: what is reported of a process that reached it may be some milliseconds less
_KILLED = re.compile(r"^[^:\n]+: fatal error: Killed signal terminated program \w+$", re.MULTILINE)
_ERROR = re.compile(r"\berror: ")
_DISK_FULL = "No space left on device"
_LEAST_FREE_BYTES = 16 << 20


def run_contained(
    command: Sequence[str], folder: Path, limits: CompileLimits, stdout: str = "", *, ours: bool = False
) -> Finished:
    """Run `command` in `folder` without input; what it prints goes to the file `stdout` there, or nowhere.

    At most 1 MB of its errors is kept. What the machine has ended is run again after a pause; so is what complains of a
    full disk, which may have room again, or it is the sources that say so; not if the sources are `ours`.

    Raises:
        Outage: it was killed from outside three times, or the disk is full.
    """
    for pause in PAUSE_SECONDS:
        time.sleep(pause)
        _require_room(folder)
        done, cpu_seconds = _run_once(command, folder, limits, stdout)
        if done.code:  # what it says of the disk may be incomplete, since that is where it is written
            _require_room(folder)
        killed = was_killed(done) and cpu_seconds < _NEARLY * limits.seconds
        if not killed and (ours or not done.code or _DISK_FULL not in done.stderr):
            return done
    if killed:
        raise Outage("was killed from outside", where="compiler", remedy="free some memory and run it again")
    return done


def _require_room(folder: Path) -> None:
    if shutil.disk_usage(folder).free < _LEAST_FREE_BYTES:
        raise Outage("no space left", where="compiler", remedy="free some, or set TMPDIR to a folder with more")


def was_killed(done: Finished) -> bool:
    """Whether it, or the compiler that it runs, died of SIGKILL. Hostile sources may hold the same words, but then
    beside errors of their own."""
    if done.code == -signal.SIGKILL:
        return not done.limit
    killed = len(_KILLED.findall(done.stderr))
    return done.code != 0 and killed > 0 and killed == len(_ERROR.findall(done.stderr))


def _run_once(command: Sequence[str], folder: Path, limits: CompileLimits, stdout: str) -> tuple[Finished, float]:
    """What became of it, and the CPU seconds of all its processes."""
    errors = folder / "stderr.txt"
    wrapped = ["/bin/sh", "-c", _SCRIPT, "sh", str(limits.seconds), str(limits.memory_mb * 1024)]
    wrapped += [str(limits.output_mb * 2048), *command]  # ulimit -f counts in 512-byte blocks
    environment = {"PATH": os.environ.get("PATH", ""), "TMPDIR": str(folder), "LC_ALL": "C"}
    with errors.open("wb") as stderr, (folder / stdout if stdout else Path(os.devnull)).open("wb") as output:
        process = subprocess.Popen(
            wrapped,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=stderr,
            env=environment,
            process_group=0,
        )
        try:
            code, cpu_seconds = _wait(process, limits.seconds * _ALL_PROCESSES)
            code = _SIGNALLED - code if code > _SIGNALLED else code
            limit = ""
        except subprocess.TimeoutExpired:
            limit, code, cpu_seconds = "time", -signal.SIGKILL, float(limits.seconds)
        finally:
            # Compilers start processes of their own; whatever is left of them goes too.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdin.close()  # type: ignore[union-attr]
    with errors.open("rb") as stream:
        text = stream.read(_MOST_STDERR).decode("utf-8", errors="replace")
    return Finished(code, text, limit or _limit_of(text)), cpu_seconds


def run_compiler(command: Sequence[str], folder: Path, limits: CompileLimits) -> Finished:
    """`run_contained` for a compiler or linker on a candidate's sources.

    Raises:
        CompileError: it reached a limit, which it would do again in any other way.
    """
    done = run_contained(command, folder, limits)
    if done.limit:
        what = {"time": "CPU time", "memory": "memory", "output": "space for its output"}[done.limit]
        raise CompileError(f"error: the compilation takes more {what} than it may")
    return done


def _wait(process: subprocess.Popen[bytes], seconds: float) -> tuple[int, float]:
    """The exit status and the CPU seconds, as soon as it ends: `Popen.wait` with a limit looks only every 50 ms.

    Raises:
        subprocess.TimeoutExpired: after so many seconds its processes have taken so much CPU time, or hardly any.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, a kernel before 5.3, or a container that forbids the call
        return process.wait(timeout=seconds), float("inf")
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        used = 0.0
        while not poll.poll(_LOOK_AFTER * seconds * 1000):
            before, used = used, _group_seconds(process.pid)
            if used >= seconds or used - before < _LEAST_SHARE * seconds:
                raise subprocess.TimeoutExpired(process.args, seconds)
    finally:
        os.close(descriptor)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def _group_seconds(group: int) -> float:
    """CPU seconds of the processes in a group, and of those of their children that have ended."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if fields[2] == str(group):
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _limit_of(stderr: str) -> str:
    """The limit that g++'s message names: it says by which signal its parts ended, in the words of the C library."""
    if "CPU time limit exceeded" in stderr or "signal terminated program cc1plus" in stderr:
        return "time"
    if "out of memory" in stderr or "virtual memory exhausted" in stderr or "bad_alloc" in stderr:
        return "memory"
    if "File size limit exceeded" in stderr or "file too large" in stderr.lower():
        return "output"
    if "Killed signal" in stderr:
        return "time"
    return ""
