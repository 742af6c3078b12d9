"""What a shard asks of a server goes out many at a time and comes back in order."""

import threading

import pytest

from pipelines.steps import WINDOW, concurrently


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_results_come_in_order_whatever_finishes_first(threads):
    held = threading.Event()

    def work(item: int) -> int:
        if item == 0 and threads > 1:
            held.wait(60)  # all that fit in the window are done before the first
        if item == threads - 1:
            held.set()
        return item * 10

    assert list(concurrently(work, range(40), threads)) == [item * 10 for item in range(40)]


def test_as_many_as_there_are_threads_are_under_way_together():
    together = threading.Barrier(5, timeout=60)
    assert list(concurrently(lambda _: together.wait() >= 0, range(10), 5)) == [True] * 10


def test_items_are_drawn_as_they_are_needed():
    drawn = []

    def items():
        for item in range(1000):
            drawn.append(item)
            yield item

    results = concurrently(str, items(), 3)
    assert next(results) == "0"
    assert len(drawn) <= WINDOW * 3 + 1
    results.close()


def test_error_reaches_the_caller_and_ends_the_work():
    def work(item: int) -> int:
        if item == 3:
            raise KeyError(item)
        return item

    results = concurrently(work, iter(range(10**9)), 2)
    with pytest.raises(KeyError):
        list(results)
