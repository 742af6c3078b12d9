"""Ends the calls of one piece of work while others of the same sandbox go on."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from musadata.errors import Cancelled


class Cancellation:
    """Whether somebody still waits for a piece of work. `cancel` may come from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakeup = -1  # becomes readable when the work is cancelled
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End the sandbox's call that runs for this work, and let no other begin."""
        with self._lock:
            self._cancelled.set()
            if self._wakeup >= 0:
                os.eventfd_write(self._wakeup, 1)

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def check(self) -> None:
        """Do nothing while somebody waits.

        Raises:
            Cancelled: the work is cancelled.
        """
        if self.is_cancelled:
            raise Cancelled("nobody waits for it any more", where="sandbox")

    @contextmanager
    def applies(self) -> Iterator[None]:
        """Calls of this thread within the block belong to the work."""
        self._wakeup = os.eventfd(1 if self._cancelled.is_set() else 0)
        outer = _current.set(self)
        try:
            yield
        finally:
            _current.reset(outer)
            with self._lock:
                os.close(self._wakeup)
                self._wakeup = -1

    def fileno(self) -> int:
        """For a selector."""
        return self._wakeup


_current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


def current_cancellation() -> Cancellation | None:
    """Of the work that this thread does."""
    return _current.get()
