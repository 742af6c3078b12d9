"""The buffer of tasks whose answers all failed."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.config import SamplingConfig
from musadata.records import ErrorClass
from musadata.sampling.assembly import assemble
from musadata.sampling.retry import FIRST_SAMPLE, RetryBuffer, find_failure, retry
from musadata.storage.shards import Shard
from musadata.training_rows import RetryState
from tests.sampling.test_rollout import ANNOTATION, TASK, VERDICT, WRONG, answer, converse

UNDECIDED = dataclasses.replace(WRONG, error_class=ErrorClass.INFRA, feedback="")
CLOSER = dataclasses.replace(WRONG, test_share=0.5, feedback="only row 3 is wrong")
FARTHER = dataclasses.replace(WRONG, test_share=0.0, error_class=ErrorClass.COMPILE, feedback="no such type")
ALONE = Shard(0, 1)


def failure_of(number: int = 0):
    attempts, _ = converse([FARTHER], turns=1)
    return find_failure(dataclasses.replace(TASK, task_id=f"task-{number}"), ANNOTATION, [attempts])


def again(failure, *verdicts, number=1, turns=3):
    said = iter(verdicts)
    return retry(failure, number, turns, 7, lambda request: answer(request.turn), lambda *_: next(said))


def test_the_answer_that_got_furthest_comes_back():
    conversations = [converse([FARTHER, CLOSER, FARTHER])[0], converse([FARTHER, FARTHER, FARTHER], sample=1)[0]]
    failure = find_failure(TASK, ANNOTATION, conversations)
    assert failure.attempt is conversations[0][1]


@pytest.mark.parametrize("verdicts", [[VERDICT], [WRONG, VERDICT], [UNDECIDED]])
def test_a_task_that_was_solved_or_never_judged_does_not_wait(verdicts):
    assert find_failure(TASK, ANNOTATION, [converse(verdicts)[0]]) is None
    assert find_failure(TASK, ANNOTATION, []) is None


def test_a_retry_asks_for_the_repair_of_the_failed_answer_alone():
    attempts, _ = converse([FARTHER, CLOSER, FARTHER])
    failed, repaired = again(find_failure(TASK, ANNOTATION, [attempts]), VERDICT)
    assert (failed.answer, failed.verdict) == (attempts[1].answer, CLOSER)
    assert (repaired.request.sample, repaired.request.turn) == (FIRST_SAMPLE + 1, 2)
    roles = [message.role for message in repaired.request.messages]
    assert roles == ["system", "user", "assistant", "user"]
    assert "only row 3 is wrong" in repaired.request.messages[-1].content


@pytest.mark.parametrize(("turns", "asked"), [(1, 1), (2, 1), (3, 2)])
def test_a_retry_has_one_turn_fewer_but_at_least_one(turns, asked):
    assert len(again(failure_of(), *[WRONG] * 3, turns=turns)) == 1 + asked


def test_the_failed_answer_stays_one_candidate_and_the_return_counts_it():
    first, _ = converse([FARTHER], turns=1)
    failure = find_failure(TASK, ANNOTATION, [first])
    candidates, trajectories = assemble(TASK, [first, again(failure, VERDICT)], "teacher", SamplingConfig())
    assert [one.accepted for one in candidates] == [False, True]
    assert candidates[1].parent_id == candidates[0].candidate_id
    assert trajectories[1].outcomes == ("compile", "accepted")
    assert trajectories[1].trajectory_return == pytest.approx(0.75 * -1 + 0.25 * 1 + 0.1)


def test_a_failure_leaves_on_success_and_after_its_tries():
    buffer = RetryBuffer(SamplingConfig(retry_tries=2), 7, ALONE)
    for number in range(3):
        buffer.add(failure_of(number))
    solved, given_up, unjudged = buffer.draw(1)
    buffer.settle(solved, again(solved, VERDICT))
    buffer.settle(given_up, again(given_up, CLOSER, FARTHER))
    buffer.settle(unjudged, again(unjudged, UNDECIDED))
    assert [(one.task.task_id, one.tries) for one in buffer.draw(2)] == [("task-1", 1), ("task-2", 0)]
    assert buffer.draw(2)[0].attempt.verdict is CLOSER
    buffer.settle(buffer.draw(2)[0], again(buffer.draw(2)[0], FARTHER, FARTHER, number=2))
    found = {row.task_id: (row.state, row.tries) for row in buffer.rows("teacher")}
    assert found == {
        "task-0": (RetryState.SOLVED, 1),
        "task-1": (RetryState.GIVEN_UP, 2),
        "task-2": (RetryState.WAITING, 0),
    }


@given(st.integers(0, 6), st.integers(1, 3), st.integers(0, 9))
def test_the_buffer_is_bounded_and_the_first_in_is_the_first_out(size, shards, failures):
    config = SamplingConfig(retry_size=size)
    rows = {}
    for index in range(shards):
        buffer = RetryBuffer(config, 7, Shard(index, shards))
        for number in range(failures):
            buffer.add(failure_of(number))
        rows[index] = [(row.state, row.task_id) for row in buffer.rows("teacher")]
        ids = [f"task-{number}" for number in range(failures)]
        assert [task for _, task in rows[index]] == ids  # those pushed out came first
    waiting = sum(state is RetryState.WAITING for found in rows.values() for state, _ in found)
    assert waiting <= size and (waiting == size or failures * shards < size or failures < -(-size // shards))


@given(st.floats(0, 1), st.integers(1, 5))
def test_a_higher_probability_draws_more_of_the_same(probability, number):
    drawn = []
    for chance in (probability, 1.0, 0.0):
        buffer = RetryBuffer(SamplingConfig(retry_probability=chance), 7, ALONE)
        for one in range(20):
            buffer.add(failure_of(one))
        drawn.append([one.task.task_id for one in buffer.draw(number)])
    some, all_, none = drawn
    assert set(some) <= set(all_) and len(all_) == 20 and none == []
    assert probability < 1.0 or some == all_
