"""What waits, what is lost and what is cancelled, with stand-ins for workers."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from musadata.errors import MusadataError, Outage
from musadata.serving import dispatcher as dispatching
from musadata.serving.dispatcher import Busy, Dispatcher, Late, WorkerLost
from musadata.storage.journal import Journal
from musadata.verifier.submission import Submission
from tests.rewards.test_scoring import RIGHT

IDENTITY = "device"


class StandIn:
    """A worker that does what `act(source)` says: a verdict, or an exception to raise."""

    def __init__(self, act, at_once=2):
        self.name, self.at_once, self.act = "stand-in", at_once, act
        self.asked, self.cancelled, self.most = [], [], 0
        self._running = {}

    async def judge(self, attempt, submission):
        self.asked.append(submission.source)
        ended = self._running[attempt] = asyncio.Event()
        self.most = max(self.most, len(self._running))
        try:
            done = self.act(submission.source)
            if asyncio.iscoroutine(done):
                working, ending = asyncio.ensure_future(done), asyncio.ensure_future(ended.wait())
                await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
                ending.cancel()
                if not working.done():
                    working.cancel()
                    raise Outage("cancelled")
                done = working.result()
        finally:
            del self._running[attempt]
        if isinstance(done, Exception):
            raise done
        return done

    def cancel(self, attempt):
        self.cancelled.append(attempt)
        if attempt in self._running:
            self._running[attempt].set()


async def slow(seconds=0.05):
    await asyncio.sleep(seconds)
    return RIGHT


def submission(source):
    return Submission("reference", source)


@asynccontextmanager
async def serving(folder, *workers, most_waiting=100):
    with Journal(folder, "verdicts") as journal:
        dispatcher = Dispatcher(journal, most_waiting, lambda text: None)
        dispatcher.admit(IDENTITY)
        tasks = [asyncio.create_task(dispatcher.serve(worker)) for worker in workers]
        try:
            yield dispatcher
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError, WorkerLost):
                    await task


def run(work):
    return asyncio.run(asyncio.wait_for(work, 20))


def test_equal_submissions_are_judged_once_and_known_after_a_restart(tmp_path):
    async def ask(worker):
        async with serving(tmp_path, worker) as service:
            found = await asyncio.gather(*(service.judge(submission("a"), 5) for _ in range(5)))
            assert {verdict for verdict, _ in found} == {RIGHT}
            return [known for _, known in found]

    first, second = StandIn(lambda source: slow()), StandIn(lambda source: slow())
    assert run(ask(first)) == [False] * 5 and first.asked == ["a"]
    assert run(ask(second)) == [True] * 5 and second.asked == []


def test_what_a_lost_worker_had_is_judged_by_another(tmp_path):
    async def ask():
        lost = StandIn(lambda source: WorkerLost("its process ended"))
        async with serving(tmp_path, lost) as service:
            asked = [asyncio.create_task(service.judge(submission(str(number)), 10)) for number in range(4)]
            await asyncio.sleep(0.05)
            assert not any(one.done() for one in asked) and service.lost == 1
            saving = asyncio.create_task(service.serve(StandIn(lambda source: RIGHT)))
            assert [verdict for verdict, _ in await asyncio.gather(*asked)] == [RIGHT] * 4
            saving.cancel()

    run(ask())


def test_what_fails_everywhere_is_an_outage_and_is_not_kept(tmp_path):
    async def ask():
        worker = StandIn(lambda source: KeyError("a mistake of ours") if source == "bad" else RIGHT)
        async with serving(tmp_path, worker) as service:
            for _ in range(2):
                with pytest.raises(Outage, match=r"failed 3 times.*a mistake of ours"):
                    await service.judge(submission("bad"), 10)
                assert (await service.judge(submission("good"), 10))[0] == RIGHT
            assert worker.asked.count("bad") == 6 and worker.asked.count("good") == 1

    run(ask())


def test_a_worker_whose_machine_fails_three_times_in_a_row_is_lost(tmp_path):
    async def ask():
        with Journal(tmp_path, "verdicts") as journal:
            dispatcher = Dispatcher(journal, 100, lambda text: None)
            dispatcher.admit(IDENTITY)
            asked = asyncio.create_task(dispatcher.judge(submission("a"), 10))
            with pytest.raises(WorkerLost, match="3 times in a row"):
                await dispatcher.serve(StandIn(lambda source: Outage("Xid 79"), at_once=1))
            with pytest.raises(Outage):
                await asked

    run(ask())


def test_a_passed_deadline_is_no_verdict_and_ends_the_work(tmp_path):
    async def ask():
        worker = StandIn(lambda source: slow(60) if source == "slow" else RIGHT, at_once=1)
        async with serving(tmp_path, worker) as service:
            with pytest.raises(Late):
                await service.judge(submission("slow"), 0.1)
            assert (await service.judge(submission("quick"), 5))[0] == RIGHT
            assert len(worker.cancelled) == 1 and (service.waiting, service.running) == (0, 0)

    run(ask())


def test_work_is_dropped_when_the_last_client_has_gone(tmp_path):
    async def ask():
        worker = StandIn(lambda source: slow(0.2), at_once=1)
        async with serving(tmp_path, worker) as service:
            running, both = [asyncio.create_task(service.judge(submission("a"), 5)) for _ in range(2)]
            waiting = asyncio.create_task(service.judge(submission("b"), 5))
            await asyncio.sleep(0.05)
            running.cancel()
            waiting.cancel()
            assert (await both)[0] == RIGHT
            await asyncio.sleep(0.05)
            assert worker.asked == ["a"] and not worker.cancelled

    run(ask())


def test_only_so_many_may_wait_and_the_urgent_go_first(tmp_path):
    async def ask():
        worker = StandIn(lambda source: slow(0.02), at_once=1)
        async with serving(tmp_path, worker, most_waiting=3) as service:
            first = asyncio.create_task(service.judge(submission("first"), 5))
            await asyncio.sleep(0.01)
            later = [
                asyncio.create_task(service.judge(submission(str(priority)), 5, priority)) for priority in (0, 1, 9)
            ]
            await asyncio.sleep(0)
            with pytest.raises(Busy):
                await service.judge(submission("too much"), 5)
            await asyncio.gather(first, *later)
            assert worker.asked == ["first", "9", "1", "0"] and worker.most == 1

    run(ask())


def test_a_worker_that_does_not_end_cancelled_work_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatching, "_GRACE_SECONDS", 0.05)

    async def ask():
        worker = StandIn(lambda source: slow(60), at_once=1)
        worker.cancel = lambda attempt: None
        async with serving(tmp_path, worker) as service:
            with pytest.raises(Late):
                await service.judge(submission("hung"), 0.05)
            await asyncio.sleep(0.1)
            assert service.lost == 1

    run(ask())


def test_a_worker_with_another_device_is_not_admitted(tmp_path):
    async def ask():
        async with serving(tmp_path) as service:
            service.admit(IDENTITY)
            with pytest.raises(MusadataError, match="differs from the first"):
                service.admit("another device")

    run(ask())
