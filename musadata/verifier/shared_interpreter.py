"""One interpreter for the threads of many verdicts."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH_SECONDS = 0.0001  # a candidate that is timed holds up all others: its thread must not wait long
_ALLOCATIONS = 20_000  # between two looks of the garbage collector


@contextmanager
def shared_interpreter() -> Iterator[None]:
    """Threads get the interpreter soon, and the collector seldom looks through what stays.

    Reading a candidate makes thousands of tokens, none of which is in a cycle; the collector took two thirds of the
    time, in which no other thread runs.
    """
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        sys.setswitchinterval(interval)
