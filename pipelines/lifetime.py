"""What stays open until its process ends."""

import atexit
import gc
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

ALLOCATIONS = 20_000  # between two looks of the garbage collector

Opened = TypeVar("Opened")
_open = ExitStack()


def keep_open(context: AbstractContextManager[Opened]) -> Opened:
    """Enter a context, which is left when the process ends."""
    return _open.enter_context(context)


def collect_rarely() -> None:
    """Have the garbage collector look less often. Rows are many small objects without cycles: looking through them
    again and again took two thirds of the time in which they are read."""
    gc.set_threshold(ALLOCATIONS)


def close() -> None:
    """Close all that is open, as the end of the process does unless it comes without a farewell."""
    _open.close()


atexit.register(close)
