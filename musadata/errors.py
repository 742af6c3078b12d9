"""The ways to fail that a user can mend, and how an unexpected failure is described."""

import errno
import traceback
from pathlib import Path

# The machine's own failures among those that the operating system reports.
MACHINE_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ESTALE}
)


class MusadataError(Exception):
    """Something a user can mend: says what went wrong, where, and what to do about it.

    Commands print it as one line and exit with code 2. Trouble with a single row is never this: it is a `Reject`.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = ""):
        self.what, self.where, self.remedy = what, where, remedy
        text = ": ".join(part for part in (where, what) if part) + (f"; {remedy}" if remedy else "")
        super().__init__(" ".join(text.split()))  # one line, whatever a key or a library's message holds


class BudgetSpent(MusadataError):
    """The run has used the tokens or the money that it may; what is in flight still comes to its end."""


class Outage(MusadataError):
    """The machine failed under the work: a full disk, a process killed from outside, no memory.

    It says nothing about what was worked on, so it is never written down as a result: the same work may succeed later.
    """


class Cancelled(Outage):
    """Whoever asked for the work has stopped it."""


class Rejection(Exception):
    """One item that cannot become a row. Reason (short and countable) and detail go into its `Reject`."""

    def __init__(self, reason: str, detail: str = ""):
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


def is_own_failure(error: Exception) -> bool:
    """Whether an exception says something about the work, and nothing about the machine or what a user can mend."""
    machine = isinstance(error, OSError) and error.errno in MACHINE_ERRORS
    return not machine and not isinstance(error, (MusadataError, MemoryError))


def short_trace(error: BaseException, frames: int = 3) -> str:
    """Type, message and innermost frames of an exception in one line: "KeyError: 'x' (naming.py:40 claim, …)"."""
    stack = traceback.extract_tb(error.__traceback__)[-frames:]
    places = ", ".join(f"{Path(item.filename).name}:{item.lineno} {item.name}" for item in reversed(stack))
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}" + (f" ({places})" if places else "")
