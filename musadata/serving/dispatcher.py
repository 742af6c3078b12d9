"""Hands submissions to workers and keeps their verdicts; knows nothing of Ray or HTTP."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from musadata.errors import MusadataError, Outage, short_trace
from musadata.records import Verdict
from musadata.rows import plain, restore
from musadata.storage.journal import Journal
from musadata.verifier.submission import Submission, key_of

_TRIES = 3  # of a submission, in which a worker or its machine failed
_MOST_OUTAGES = 3  # of a worker in a row: then it is started anew
_GRACE_SECONDS = 300.0  # in which a worker must end what was cancelled: a compiler that runs for it ends first


class WorkerLost(Exception):
    """A worker's process, node or device is gone, or does not answer."""


class Busy(Exception):
    """As many submissions wait as may wait."""


class Late(Exception):
    """No verdict within the time that the request gave."""


class Worker(Protocol):
    """A place where submissions are judged, `at_once` of them at a time."""

    name: str
    at_once: int

    async def judge(self, attempt: str, submission: Submission) -> Verdict:
        """The verdict of one attempt.

        Raises:
            WorkerLost: the worker is gone.
            Outage: its machine failed under the work.
        """

    def cancel(self, attempt: str) -> None:
        """End an attempt soon; its `judge` then raises anything."""


@dataclass
class _Job:
    """A submission until its verdict. `waiters`: requests that wait for it; with none left it is dropped."""

    key: str
    submission: Submission
    priority: int
    answer: asyncio.Future[Verdict]
    waiters: int = 0
    tries: int = 0
    is_running: bool = False


@dataclass
class Dispatcher:
    """The queue between requests and workers. Lives in one event loop.

    Attributes:
        journal: of verdicts without a policy; equal submissions are judged once.
        most_waiting: submissions that may wait for a worker.
        say: tells the operator.
        lost: how many workers were lost so far.
    """

    journal: Journal
    most_waiting: int
    say: Callable[[str], None]
    lost: int = 0
    _identity: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _queue: asyncio.PriorityQueue[tuple[int, int, _Job]] = field(default_factory=asyncio.PriorityQueue)
    _jobs: dict[str, _Job] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def running(self) -> int:
        return sum(job.is_running for job in self._jobs.values())

    @property
    def waiting(self) -> int:
        return len(self._jobs) - self.running

    def admit(self, identity: str) -> None:
        """Let a worker judge whose verdicts mean the same as those of the first one.

        Raises:
            MusadataError: it has another device, driver, toolchain or version.
        """
        if not self._identity.done():
            self._identity.set_result(identity)
        if self._identity.result() != identity:
            remedy = "serve each kind of device by a service of its own"
            raise MusadataError("differs from the first worker in device, driver or version", remedy=remedy)

    async def judge(self, submission: Submission, seconds: float, priority: int = 0) -> tuple[Verdict, bool]:
        """A verdict without a policy, and whether it was known. Submissions of a higher priority go first.

        Raises:
            Busy: too many wait.
            Late: there was no verdict in so many seconds.
            Outage: the machine failed in each try.
        """
        try:
            async with asyncio.timeout(seconds):
                key = key_of(await asyncio.shield(self._identity), submission)
                known = self.journal.get(key)
                if known is not None:
                    return restore(Verdict, known), True
                return await self._wait(self._jobs.get(key) or self._queued(key, submission, priority)), False
        except TimeoutError as error:
            raise Late from error

    def _queued(self, key: str, submission: Submission, priority: int) -> _Job:
        if self.waiting >= self.most_waiting:
            raise Busy
        job = _Job(key, submission, priority, asyncio.get_running_loop().create_future())
        self._jobs[key] = job
        self._enqueue(job)
        return job

    def _enqueue(self, job: _Job) -> None:
        self._queue.put_nowait((-job.priority, next(self._numbers), job))

    async def _wait(self, job: _Job) -> Verdict:
        job.waiters += 1
        try:
            return await asyncio.shield(job.answer)
        finally:
            job.waiters -= 1
            if not job.waiters and not job.answer.done():
                job.answer.cancel()
                self._jobs.pop(job.key, None)

    async def serve(self, worker: Worker) -> None:
        """Have a worker judge until it is lost or this is cancelled.

        Raises:
            WorkerLost: always, in the end.
        """
        outages = 0

        async def work() -> None:
            nonlocal outages
            while True:
                _, _, job = await self._queue.get()
                if job.answer.done():
                    continue
                if await self._try(worker, job):
                    outages = 0
                elif (outages := outages + 1) >= _MOST_OUTAGES:
                    raise WorkerLost(f"its machine failed {outages} times in a row")

        try:
            async with asyncio.TaskGroup() as slots:
                for _ in range(worker.at_once):
                    slots.create_task(work())
        except ExceptionGroup as group:  # of the slots that have seen it
            self.lost += 1
            raise group.exceptions[0] from None

    async def _try(self, worker: Worker, job: _Job) -> bool:
        """One try of a submission, after which it is answered or waits again. Whether the worker's machine did well."""
        job.tries, job.is_running = job.tries + 1, True
        try:
            verdict = await self._ask(worker, job)
        except Outage as outage:
            self._again(job, str(outage))
            return False
        except WorkerLost as lost:
            self._again(job, str(lost))
            raise
        except asyncio.CancelledError:  # another slot has seen that the worker is lost
            self._again(job, "its worker was lost")
            raise
        except Exception as error:  # a mistake of ours says nothing about the candidate, nor about the machine
            self._again(job, short_trace(error))
            return True
        finally:
            job.is_running = False
        if verdict is not None:
            self._keep(job, verdict)
        return True

    def _keep(self, job: _Job, verdict: Verdict) -> None:
        try:
            self.journal.put(job.key, plain(verdict))
        except Outage as outage:
            self._end(job, outage)
        else:
            self._end(job, verdict)

    async def _ask(self, worker: Worker, job: _Job) -> Verdict | None:
        """The verdict; None if nobody waits for it any more."""
        attempt = f"{job.key}/{next(self._numbers)}"
        asked = asyncio.ensure_future(worker.judge(attempt, job.submission))
        try:
            await asyncio.wait({asked, job.answer}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            worker.cancel(attempt)
            await asyncio.wait({asked}, timeout=_GRACE_SECONDS)
            if not asked.done():
                raise WorkerLost("it does not end what was cancelled")
            if isinstance(asked.exception(), WorkerLost):
                asked.result()
            return None
        finally:
            asked.cancel()

    def _again(self, job: _Job, why: str) -> None:
        if job.answer.done():
            return
        if job.tries < _TRIES:
            self._enqueue(job)
            return
        remedy = "send the request again later"
        self._end(job, Outage(f"failed {job.tries} times ({why})", where="service", remedy=remedy))

    def _end(self, job: _Job, result: Verdict | Outage) -> None:
        self._jobs.pop(job.key, None)
        if job.answer.done():
            return
        if isinstance(result, Outage):
            self.say(f"no verdict: {result}")
            job.answer.set_exception(result)
        else:
            job.answer.set_result(result)
