"""How many requests are let through, by this process and by all that share a server."""

import asyncio
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.config import RequestsConfig
from musadata.errors import MusadataError
from musadata.teacher.request_gate import RequestGate, Slots


def test_slots_are_shared_by_processes_and_free_when_one_is_killed(tmp_path):
    path = tmp_path / "slots"
    code = (
        "import sys, time; from pathlib import Path; from musadata.teacher.request_gate import Slots\n"
        "slots = Slots(5, Path(sys.argv[1])); [slots.take() for _ in range(3)]; print('taken', flush=True)\n"
        "time.sleep(60)"
    )
    ours = Slots(5, path)
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"taken\n"
        assert len({slot for _ in range(5) if (slot := ours.take()) is not None}) == 2
        assert ours.take() is None
        other.kill()
        other.wait()
        assert sum(ours.take() is not None for _ in range(5)) == 3
    ours.close()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.lists(st.sampled_from([0.0, 0.001, 0.003]), min_size=1, max_size=40), st.integers(1, 3))
def test_never_more_than_the_limit_and_nobody_is_forgotten(limit, lengths, workers):
    """Alone, whatever the number of workers that it believes in."""
    most, now = 0, 0

    async def run() -> None:
        gate = RequestGate(RequestsConfig(), limit, workers)

        async def one(length: float) -> None:
            nonlocal most, now
            slot = await gate.enter(1)
            now += 1
            most = max(most, now)
            await asyncio.sleep(length)
            now -= 1
            gate.give_back(slot)

        await asyncio.wait_for(asyncio.gather(*map(one, lengths)), 20)

    asyncio.run(run())
    assert most <= limit


def replies(gate: RequestGate, overloaded: int, good: int) -> None:
    for _ in range(overloaded):
        gate.replied(True)
    for _ in range(good):
        gate.replied(False)


def test_one_overload_changes_nothing_many_shrink_and_good_replies_grow_again():
    gate = RequestGate(RequestsConfig(), 64)
    replies(gate, 1, 63)
    assert gate.limit == 64
    replies(gate, 20, 44)
    assert gate.limit == 44
    for _ in range(20):
        replies(gate, 0, 64)
    assert gate.limit == 64


def test_waiting_request_that_is_cancelled_takes_no_slot():
    async def run() -> None:
        gate = RequestGate(RequestsConfig(), 1)

        async def hold(seconds: float) -> None:
            slot = await gate.enter(1)
            await asyncio.sleep(seconds)
            gate.give_back(slot)

        first, second = asyncio.create_task(hold(0.02)), asyncio.create_task(hold(9))
        await asyncio.sleep(0.001)
        second.cancel()
        await first
        await asyncio.wait_for(hold(0), 1)

    asyncio.run(run())


def test_requests_a_minute_are_spread():
    async def run() -> float:
        gate = RequestGate(RequestsConfig(requests_per_minute=600), 64)  # ten a second, one second's worth at once

        async def one() -> None:
            gate.give_back(await gate.enter(1))

        start = time.monotonic()
        await asyncio.gather(*(one() for _ in range(15)))
        return time.monotonic() - start

    assert asyncio.run(run()) >= 0.39


@pytest.mark.parametrize(("failed", "stops"), [(9, False), (10, True)])
def test_breaker_counts_a_share_of_the_last_requests(failed, stops):
    gate = RequestGate(RequestsConfig(stop_at_failed=0.5), 4)
    for _ in range(20 - failed):
        gate.finished("", "url")
    for _ in range(failed):
        gate.finished("500: no", "url")
    assert isinstance(gate.stopped, MusadataError) is stops
