"""Running a compiler on hostile sources: with limits, in a process group of its own, which is killed at the end."""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from musadata.verifier.compilation.compile_errors import CompileError


@dataclass(frozen=True)
class CompileLimits:
    """What one compilation may take.

    Attributes:
        seconds: CPU time per process; the whole may take three times as long by the clock.
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
# candidates that are executed: one that is timed, and holds the device, must not wait for a core.
_LIMIT = 'ulimit -t "$1"; ulimit -v "$2"; ulimit -f "$3"; ulimit -c 0; shift 3; exec nice -n 10 "$@"'
_MOST_STDERR = 1 << 20


def run_contained(command: Sequence[str], folder: Path, limits: CompileLimits, stdout: str = "") -> Finished:
    """Run `command` in `folder` without input; what it prints goes to the file `stdout` there, or nowhere.

    At most 1 MB of its errors is kept.
    """
    errors = folder / "stderr.txt"
    wrapped = ["/bin/sh", "-c", _LIMIT, "sh", str(limits.seconds), str(limits.memory_mb * 1024)]
    wrapped += [str(limits.output_mb * 2048), *command]  # ulimit -f counts in 512-byte blocks
    environment = {"PATH": os.environ.get("PATH", ""), "TMPDIR": str(folder), "LC_ALL": "C"}
    with errors.open("wb") as stderr, (folder / stdout if stdout else Path(os.devnull)).open("wb") as output:
        process = subprocess.Popen(
            wrapped,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=stderr,
            env=environment,
            process_group=0,
        )
        try:
            code = _wait(process, limits.seconds * 3)
            limit = ""
        except subprocess.TimeoutExpired:
            limit = "time"
            code = -signal.SIGKILL
        finally:
            # Compilers start processes of their own; whatever is left of them goes too.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    with errors.open("rb") as stream:
        text = stream.read(_MOST_STDERR).decode("utf-8", errors="replace")
    return Finished(code, text, limit or _limit_of(text))


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


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int:
    """The exit status, as soon as there is one: `Popen.wait` with a limit looks only every 50 ms.

    Raises:
        subprocess.TimeoutExpired: it is still running after so many seconds.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, a kernel before 5.3, or a container that forbids the call
        return process.wait(timeout=seconds)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        ended = poll.poll(seconds * 1000)
    finally:
        os.close(descriptor)
    return process.wait(timeout=None if ended else 0)


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
