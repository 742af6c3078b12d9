"""When the next request may be sent: slots that processes share, limits of rate, and the point at which a run stops.

Everything here runs in one event loop. docs/requests.md says why no library does it.
"""

import asyncio
import fcntl
import os
import random
import time
from collections import Counter, deque
from pathlib import Path

from musadata.config import RequestsConfig
from musadata.errors import MusadataError

_POLL_SECONDS = 0.02  # between looks for a slot that another process has given back
_WINDOW, _FEWEST = 100, 20  # finished requests that the circuit breaker looks at
_SHRINK, _OVERLOADED = 0.7, 0.1
_MOST_CAUSES = 3


class Slots:
    """The right to have one request under way, of `count` that all processes of a run share.

    A slot is a byte of a file, locked by its holder, so the slots of a killed process are free at once.
    """

    def __init__(self, count: int, path: Path | None = None):
        """Without a path this process has all slots to itself."""
        self._count = count
        self._held: set[int] = set()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600) if path else -1
        self._start = os.getpid() % count

    def take(self) -> int | None:
        """A slot, or None where others hold all."""
        for step in range(self._count):
            slot = (self._start + step) % self._count
            if slot not in self._held and self._lock(slot):
                self._held.add(slot)
                return slot
        return None

    def give_back(self, slot: int) -> None:
        self._held.discard(slot)
        self._start = slot  # the next look begins there
        if self._file >= 0:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, slot)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _lock(self, slot: int) -> bool:
        if self._file < 0:
            return True
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
        except OSError:
            return False
        return True


class _Rate:
    """At most so many units a minute, with no more than a second's worth at once."""

    def __init__(self, per_minute: float):
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._due = 0.0

    def reserve(self, units: float) -> float:
        """Seconds to wait before these units may be used; a negative number gives units back."""
        if not self._interval:
            return 0.0
        now = time.monotonic()
        wait = max(self._due - now, 0.0)
        self._due = max(self._due, now - 1.0) + units * self._interval
        return wait


class RequestGate:
    """Lets requests through, one slot each.

    The number that this process may hold falls by a third when a tenth of the last replies said that the server is
    overloaded, never for one of them alone; it grows again while they do not.
    """

    def __init__(self, config: RequestsConfig, concurrency: int, workers: int = 1, slots: Path | None = None):
        self._config, self._concurrency, self._workers = config, concurrency, workers
        self._slots = Slots(concurrency, slots if workers > 1 else None)
        self._limit, self._held = float(concurrency), 0
        self._share = concurrency / workers if workers > 1 else concurrency  # what it may hold while others wait
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._poll: asyncio.TimerHandle | None = None
        self._requests = _Rate(config.requests_per_minute / workers)
        self._tokens = _Rate(config.tokens_per_minute / workers)
        self._paused_until = 0.0
        self._replies = self._overloads = 0
        self._finished: deque[str] = deque(maxlen=_WINDOW)  # causes of failure, "" for answers
        self.stopped: BaseException | None = None

    async def enter(self, tokens: float) -> int:
        """A slot for a request of about so many tokens, as soon as there is one; to be given back.

        Raises:
            Exception: what the run was stopped with.
        """
        wait = max(self._requests.reserve(1), self._tokens.reserve(tokens), self._paused_until - time.monotonic())
        if wait > 0:
            await asyncio.sleep(wait)
        slot = self._take_free()
        return await self._wait_for_slot() if slot is None else slot

    def used(self, tokens: float) -> None:
        """Correct an estimate of tokens by so many."""
        self._tokens.reserve(tokens)

    def pause(self, seconds: float) -> None:
        """Send nothing for so long: the server has said that its limit is reached."""
        if seconds > 0:
            self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    def replied(self, overloaded: bool) -> None:
        """Tell how the server bears the load; to be called for every reply."""
        self._replies += 1
        self._overloads += overloaded
        if self._replies < max(self._limit, 10):
            return
        if self._overloads >= _OVERLOADED * self._replies:
            self._limit = max(self._limit * _SHRINK, 1.0)
        elif self._overloads <= 1:
            self._limit = min(self._limit * 1.1 + 1, self._concurrency)
            self._hand_out()
        self._replies = self._overloads = 0

    def finished(self, failure: str, where: str) -> None:
        """Note how a request ended, "" for an answer; stops the run where too many failed."""
        self._finished.append(failure)
        if not failure or len(self._finished) < _FEWEST or self._config.stop_at_failed >= 1:
            return
        failed = [cause for cause in self._finished if cause]
        if len(failed) >= self._config.stop_at_failed * len(self._finished):
            causes = "; ".join(cause for cause, _ in Counter(failed).most_common(_MOST_CAUSES))
            self.stop(
                MusadataError(
                    f"{len(failed)} of the last {len(self._finished)} requests failed: {causes}",
                    where=where,
                    remedy="mend the server or the config and run the same command again: answers are kept",
                )
            )

    def stop(self, error: BaseException) -> None:
        """Let nothing through any more; who waits gets the error."""
        self.stopped = self.stopped or error
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(self.stopped)

    def close(self) -> None:
        if self._poll:
            self._poll.cancel()
        self._slots.close()

    @property
    def limit(self) -> int:
        """How many requests this process may have under way now."""
        return int(self._limit)

    def _take_free(self) -> int | None:
        """A slot, if there is one and nobody else waits for it."""
        if self.stopped:
            raise self.stopped
        if self._waiting or self._held >= min(self.limit, int(self._share)):
            return None
        slot = self._slots.take()
        self._held += slot is not None
        return slot

    async def _wait_for_slot(self) -> int:
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._watch()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and not waiter.exception():
                self.give_back(waiter.result())
            raise

    def give_back(self, slot: int) -> None:
        if self._held <= min(self.limit, self._share) and (waiter := self._next()) is not None:
            waiter.set_result(slot)
            return
        self._slots.give_back(slot)
        self._held -= 1
        self._watch()

    def _next(self) -> "asyncio.Future[int] | None":
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter
        return None

    def _watch(self) -> None:
        """Look for a free slot soon: other processes may give some back, and those beyond a fair share go to them."""
        if self._waiting and self._poll is None and (self._workers > 1 or self._held < self.limit):
            pause = _POLL_SECONDS * random.uniform(0.5, 1.5) if self._workers > 1 else 0.0
            self._poll = asyncio.get_running_loop().call_later(pause, self._hand_out)

    def _hand_out(self) -> None:
        self._poll = None
        while self._held < self.limit and (waiter := self._next()) is not None:
            slot = self._slots.take()
            if slot is None:
                self._waiting.appendleft(waiter)
                break
            self._held += 1
            waiter.set_result(slot)
        self._watch()
