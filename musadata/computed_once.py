"""Results that all threads share, computed by the first that asks."""

import threading
from collections.abc import Callable
from functools import cache, update_wrapper
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class ComputedOnce(Generic[P, R]):
    """`functools.cache` for what must not be computed, or opened, twice: who asks with the same arguments waits.

    With `cache` alone all threads of a batch that begins compute the same, and the interpreter's lock makes that as
    many times slower: reading PyTorch's headers took 12 seconds in 24 threads, and 0.3 in one. Other arguments do not
    wait: preparing PyTorch's own headers for nvcc takes minutes, in which most candidates need the small ones.
    """

    def __init__(self, function: Callable[P, R]):
        cached = cache(function)
        self.cache_clear, self.cache_info = cached.cache_clear, cached.cache_info
        self._cached: Callable[P, R] = cached
        self._locks: dict[object, threading.RLock] = {}
        update_wrapper(self, function)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        key = arguments, tuple(named.items())
        with self._locks.setdefault(key, threading.RLock()):
            return self._cached(*arguments, **named)
