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
