"""What a sandboxed call may use, and what became of it."""

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Limits:
    """The most that one call may use.

    `seconds` is CPU time, so that the result does not depend on the machine's load; the wall clock only ends what
    neither computes nor finishes (see `wall_seconds`, `idle_seconds`). `memory_mb` comes on top of the warm process; 0
    is no limit, for a driver that maps far more than it uses. `reserved_mb` of addresses come on top of that, for
    memory that is not touched. `output_kb` bounds what is printed, `file_mb` the scratch folder.
    """

    seconds: float = 20.0
    memory_mb: int = 4096
    reserved_mb: int = 0
    processes: int = 64
    output_kb: int = 256
    file_mb: int = 512

    @property
    def wall_seconds(self) -> float:
        """Far above `seconds`: a call on a busy machine must not end differently from one on an idle machine."""
        return 6 * self.seconds + 20

    @property
    def idle_seconds(self) -> float:
        """How long all processes of a call may sleep together without using any CPU time."""
        return min(8.0, 2 + self.seconds)


@dataclass(frozen=True)
class Outcome:
    """How a call ended. Every field depends on the call alone: no times, process ids, addresses or host paths.

    `status`: "ok" (see `value`), "error" (a Python exception), "timeout", "memory", "crash" (a signal, or the end of
    the process without a result), "output" (it printed more than it may).
    """

    status: str
    value: Any = None
    error_type: str = ""
    message: str = ""
    traceback: str = ""
    stderr: str = ""  # what it printed, standard output included
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    def describe_error(self) -> str:
        """The exception in one line, with the innermost place of its traceback; "" if there was none."""
        places = re.findall(r'File "[^"]*?([^/"]+)", line (\d+), in (\w+)', self.traceback)
        place = " ({}:{} {})".format(*places[-1]) if places else ""
        return f"{self.error_type}: {' '.join(self.message.split())[:200]}{place}" if self.error_type else ""
