"""How the CPU time of a process divides among named parts: each without the parts that it calls."""

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch


class CpuParts:
    """Counts CPU seconds of this process's threads by part while functions are watched; `seconds` holds them.

    A call that is watched costs about a microsecond more, so what is watched should take longer than that.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._of_thread = threading.local()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What this thread does in the block belongs to the part."""
        stack: list[str] = self._of_thread.__dict__.setdefault("stack", [])
        self._count(stack)
        stack.append(name)
        try:
            yield
        finally:
            self._count(stack)
            stack.pop()

    def _count(self, stack: list[str]) -> None:
        """Add the time since the last change to the part that this thread is in."""
        now = time.thread_time()
        if stack:
            self.seconds[stack[-1]] += now - self._of_thread.since
        self._of_thread.since = now

    def watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time counted; of a generator function that of its steps."""

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            with self.part(name):
                result = function(*arguments, **named)
            return self._steps(name, result) if isinstance(result, Iterator) else result

        return call

    def _steps(self, name: str, iterator: Iterator[Any]) -> Iterator[Any]:
        end = object()
        while True:
            with self.part(name):
                item = next(iterator, end)
            if item is end:
                return
            yield item


@contextmanager
def replaced(function: Any, other: Any) -> Iterator[None]:
    """Let `other` stand wherever a module, or a dictionary of one, holds the function."""
    with ExitStack() as stack:
        for module in list(sys.modules.values()):
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if value is function:
                    stack.enter_context(patch.object(module, name, other))
                elif name.isupper() and isinstance(value, dict) and function in value.values():
                    keys = [key for key, item in value.items() if item is function]
                    stack.enter_context(patch.dict(value, dict.fromkeys(keys, other)))
        yield
