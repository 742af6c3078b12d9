"""Blocks that take too long end, the others go on, and cancellation stays what it is."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.teacher.overdue import Overdue


async def sleep(watch: Overdue, seconds: float) -> str:
    try:
        with watch.block():
            await asyncio.sleep(seconds)
    except TimeoutError:
        return "late"
    return "done"


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.01, 9.0]), st.sampled_from([0.0, 0.01])), max_size=20))
def test_exactly_the_blocks_that_take_too_long_end(blocks):
    async def run() -> list[str]:
        watch, tasks = Overdue(0.2), []
        for seconds, pause in blocks:
            tasks.append(asyncio.create_task(sleep(watch, seconds)))
            await asyncio.sleep(pause)
        return await asyncio.wait_for(asyncio.gather(*tasks), 5)

    assert asyncio.run(run()) == ["late" if seconds > 1 else "done" for seconds, _ in blocks]


def test_a_block_is_watched_again_after_all_have_ended():
    async def run() -> list[str]:
        watch = Overdue(0.02)
        return [await sleep(watch, seconds) for seconds in (9.0, 0.0, 9.0)]

    assert asyncio.run(run()) == ["late", "done", "late"]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_cancelled_task_stays_cancelled_even_when_it_is_late_too(is_late):
    async def run() -> None:
        watch = Overdue(9.0)
        block = watch.block()

        async def work() -> None:
            with block:
                await asyncio.sleep(9.0)

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        if is_late:
            block.expire()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(run(), 5))
