"""The longest time of a request, watched by one timer for all of them."""

import asyncio
from collections import deque
from types import TracebackType


class Overdue:
    """Ends blocks of an event loop that take longer than a fixed time, with TimeoutError.

    All have the same time, so they fall due in the order in which they began. `asyncio.timeout` and aiohttp's
    `ClientTimeout` set a timer for each, which costs a tenth of all that a request does.
    """

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._running: deque[_Block] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def block(self) -> "_Block":
        """A context manager for one task."""
        return _Block(self)

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def begin(self, block: "_Block") -> float:
        """Watch a block; the time at which it is due."""
        loop, running = asyncio.get_running_loop(), self._running
        while running and running[0].task is None:
            running.popleft()
        running.append(block)
        due = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(due, self._look)
        return due

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while self._running and (self._running[0].task is None or self._running[0].due <= loop.time()):
            self._running.popleft().expire()
        self._timer = loop.call_at(self._running[0].due, self._look) if self._running else None


class _Block:
    def __init__(self, watch: Overdue):
        self._watch = watch
        self.task: asyncio.Task[object] | None = None  # while it runs
        self.due = 0.0
        self._expired = False

    def __enter__(self) -> None:
        self.task = asyncio.current_task()
        self.due = self._watch.begin(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        task, self.task = self.task, None
        # As in asyncio.timeout: who else has cancelled the task is not silenced.
        if self._expired and task and task.uncancel() <= 0 and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        if self.task:
            self._expired = True
            self.task.cancel()
