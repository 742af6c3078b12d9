"""Results that all threads share."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from musadata.computed_once import ComputedOnce


def test_threads_that_ask_at_once_get_what_the_first_has_computed():
    calls, begun = [], threading.Barrier(8)

    @ComputedOnce
    def double(number: int) -> int:
        calls.append(number)
        return 2 * number

    def ask(number):
        begun.wait()
        return double(number % 2)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [0, 2] * 4
    assert sorted(calls) == [0, 1]


def test_what_takes_long_holds_up_nobody_who_asks_for_something_else():
    begun, may_end = threading.Event(), threading.Event()

    @ComputedOnce
    def wait(number: int) -> int:
        if number == 0:
            begun.set()
            assert may_end.wait(30)
        return number

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(wait, 0)
        assert begun.wait(30)
        assert pool.submit(wait, 1).result(30) == 1
        assert not slow.done()
        may_end.set()
        assert slow.result(30) == 0


def test_what_has_failed_is_tried_again():
    answers = iter([ValueError("once"), 3])

    @ComputedOnce
    def fail_once() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(ValueError, match="once"):
        fail_once()
    assert fail_once() == 3
