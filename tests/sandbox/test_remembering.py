"""What was executed once is not executed again, as long as everything that decides it is the same."""

import pytest

from musadata.sandbox import Limits, Outcome, RememberingSandbox
from musadata.storage.journal import Journal

LIMITS = Limits(seconds=1.0)


class Counting:
    """Carries out calls by giving their arguments back, or by ending as `status` says."""

    def __init__(self, status="ok"):
        self.status, self.calls = status, 0

    def call(self, function, *arguments, limits, files=None):
        self.calls += 1
        return Outcome(self.status, value=[function, list(arguments)], error_type="E", stderr="printed")


def remember(caller, folder, version="1"):
    return RememberingSandbox(lambda: caller, lambda function: Journal(folder, f"executions-{version}"))


@pytest.mark.parametrize("status", ["ok", "error", "timeout", "output"])
def test_a_call_ends_the_second_time_as_it_ended_the_first_time(tmp_path, status):
    caller = Counting(status)
    first = remember(caller, tmp_path).call("a:b", "text", [1, 2.5, None], limits=LIMITS)
    again = remember(caller, tmp_path).call("a:b", "text", [1, 2.5, None], limits=LIMITS)
    assert (again, caller.calls) == (first, 1)
    assert (again.status, again.value, again.error_type) == (status, ["a:b", ["text", [1, 2.5, None]]], "E")


@pytest.mark.parametrize("status", ["crash", "memory"])
def test_what_the_machine_may_have_ended_is_tried_again(tmp_path, status):
    caller = Counting(status)
    assert [remember(caller, tmp_path).call("a:b", limits=LIMITS).status for _ in range(2)] == [status] * 2
    assert caller.calls == 2


def test_anything_that_decides_the_end_makes_it_another_call(tmp_path):
    caller = Counting()
    sandbox = remember(caller, tmp_path)
    for function, argument, limits in [
        ("a:b", 1, LIMITS),
        ("a:c", 1, LIMITS),
        ("a:b", 2, LIMITS),
        ("a:b", 1, Limits(seconds=2.0)),
    ]:
        sandbox.call(function, argument, limits=limits)
    assert caller.calls == 4


def test_what_older_code_found_is_not_believed(tmp_path):
    caller = Counting()
    remember(caller, tmp_path, "old").call("a:b", "x" * 1000, limits=LIMITS)
    remember(caller, tmp_path, "new").call("a:b", "x" * 1000, limits=LIMITS)
    assert caller.calls == 2


def test_nothing_is_started_for_calls_that_are_known(tmp_path):
    remember(Counting(), tmp_path).call("a:b", limits=LIMITS)

    def start():
        raise AssertionError("the sandbox was started")

    assert RememberingSandbox(start, lambda function: Journal(tmp_path, "executions-1")).call("a:b", limits=LIMITS).ok
