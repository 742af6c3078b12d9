"""Scores within time limits, whatever the verifier does: a stand-in here."""

import dataclasses
import json
import threading
import time

import pytest

from musadata.config import SamplingConfig
from musadata.errors import MusadataError, Outage
from musadata.records import ErrorClass, Verdict, VerifyStage
from musadata.rewards import RewardFunction, scoring
from musadata.rows import plain
from musadata.sandbox import current_cancellation
from musadata.training_config import RewardsConfig

RIGHT = Verdict(
    **dict.fromkeys(("feedback", "backend", "device", "driver", "toolchain", "seed_policy", "version"), ""),
    **dict.fromkeys(("findings", "operators", "kernels", "timings"), ()),
    accepted=True,
    stage=VerifyStage.TIME,
    error_class=None,
    test_share=1.0,
    speedup=3.0,
    reward=0.0,
)
WRONG = dataclasses.replace(RIGHT, accepted=False, error_class=ErrorClass.COMPILE, speedup=None)
UNDECIDED = dataclasses.replace(WRONG, error_class=ErrorClass.INFRA, feedback="the reference does not run")


@pytest.fixture
def truth(relu_reference):
    from musadata.verifier.task_from_reference import given_task

    task = given_task(relu_reference, [{"name": "x", "kind": "normal", "dtype": "float32", "shape": [37, 53]}])
    return json.dumps({"task": plain(task), "shape_sets": []})


@pytest.fixture
def play(monkeypatch):
    """`play(says, **limits)`: a reward function whose verifier calls `says(answer)`; `play.opened`: its verifiers."""
    opened, functions = [], []

    class Stage:
        def __init__(self, *_, **__):
            self.closed = threading.Event()

        def __enter__(self):
            opened.append(self)
            return self

        def __exit__(self, *_):
            self.closed.set()

        def verify(self, task, answer, shape_sets):
            said = says_what[0](answer, self)
            if isinstance(said, Exception):
                raise said
            return said

    says_what = []

    def make(says, **limits):
        says_what[:] = [says]
        functions.append(RewardFunction(sampling=SamplingConfig(), limits=RewardsConfig(**{"at_once": 2, **limits})))
        return functions[-1]

    monkeypatch.setattr(scoring, "Verifier", Stage)
    monkeypatch.setattr(scoring, "_LOOK_SECONDS", 0.02)
    make.opened = opened
    yield make
    for one in functions:
        one.close()


def test_scores_come_in_order_and_equal_answers_are_judged_once(play, truth):
    asked = []
    function = play(lambda answer, _: asked.append(answer) or (RIGHT if answer == "right" else WRONG))
    scores = function.score(["wrong", "right", "wrong"], [truth, {"style": "rule", "ground_truth": truth}, truth])
    assert [score.reward for score in scores] == [-1.0, 2.0, -1.0]
    assert (scores[1].parts.correctness, scores[1].parts.speed, scores[1].accepted) == (1.0, 1.0, True)
    assert sorted(asked) == ["right", "wrong"]
    assert len(play.opened) == 1
    assert function.score([], []) == []


def test_the_speed_is_weighed_as_the_config_says(play, truth):
    play(lambda *_: RIGHT)
    with RewardFunction(sampling=SamplingConfig(speedup_weight=0.1, speedup_cap=1.5)) as function:
        assert function.score(["x"], [truth])[0].reward == pytest.approx(1.15)


def test_an_infra_verdict_is_no_reward(play, truth):
    (score,) = play(lambda *_: UNDECIDED).score(["x"], [truth])
    assert (score.reward, score.why, score.verdict) == (None, "the reference does not run", UNDECIDED)


@pytest.mark.parametrize("trouble", [Outage("no memory"), RuntimeError("a bug"), OSError(28, "disk full")])
def test_a_verifier_that_is_out_of_order_is_opened_anew_and_then_there_is_no_reward(play, truth, trouble):
    (score,) = play(lambda *_: trouble).score(["x"], [truth])
    assert score.reward is None and score.verdict is None and str(trouble.args[-1]) in score.why
    assert len(play.opened) == 2 and all(one.closed.wait(5) for one in play.opened)


def test_a_passing_outage_costs_no_reward(play, truth):
    troubles = [Outage("no memory")]
    (score,) = play(lambda *_: troubles.pop() if troubles else WRONG).score(["x"], [truth])
    assert score.reward == -1.0


def wait_until_cancelled():
    end = time.monotonic() + 20
    while time.monotonic() < end:
        current_cancellation().check()
        time.sleep(0.01)
    raise AssertionError("nobody cancelled the work")


def test_an_answer_that_takes_too_long_has_no_reward_and_holds_up_no_other(play, truth):
    function = play(lambda answer, _: wait_until_cancelled() if answer == "slow" else WRONG, at_once=1, seconds=0.2)
    started = time.monotonic()
    scores = function.score(["slow", "quick"], [truth, truth])
    assert [score.reward for score in scores] == [None, -1.0]
    assert "longer than it may" in scores[0].why
    assert function.score(["quick"], [truth])[0].reward == -1.0
    assert time.monotonic() - started < 10
    assert not play.opened[0].closed.is_set()  # others are judged in it


def test_a_verifier_in_which_cancelled_work_does_not_end_is_closed(play, truth, monkeypatch):
    monkeypatch.setattr(scoring, "_GRACE_SECONDS", 0.1)
    function = play(lambda _, verifier: verifier.closed.wait(20) and WRONG, at_once=1, seconds=0.2)
    assert function.score(["slow"], [truth])[0].reward is None
    assert play.opened[0].closed.wait(5)


def test_a_batch_ends_in_its_time_and_what_had_no_turn_has_no_reward(play, truth):
    function = play(lambda *_: wait_until_cancelled(), batch_seconds=0.3)
    started = time.monotonic()
    scores = function.score([f"answer {number}" for number in range(50)], [truth] * 50)
    assert {score.reward for score in scores} == {None}
    assert time.monotonic() - started < 10


def test_a_backend_that_is_not_there_is_an_error_and_no_reward(play, truth, monkeypatch):
    def fail(self):
        raise MusadataError("there is no CUDA device")

    function = play(lambda *_: WRONG)
    monkeypatch.setattr(scoring.Verifier, "__enter__", fail)
    with pytest.raises(MusadataError, match="no CUDA device"):
        function.score(["x", "y", "z"], [truth] * 3)


@pytest.mark.parametrize(
    "bad", [None, "", "42", "[]", "null", "{}", "not JSON", {"ground_truth": None}, 3.0, "[" * 10**5]
)
def test_what_is_no_ground_truth_is_an_error_and_no_reward(play, bad):
    with pytest.raises(MusadataError, match="give the reward function the column reward_model of rl"):
        play(lambda *_: WRONG).score(["x"], [bad])


def test_answers_of_any_kind_are_judged_as_text(play, truth):
    seen = []
    function = play(lambda answer, _: seen.append(answer) or WRONG)
    assert [one.reward for one in function.score(["", None, "\x00\ud800", "x" * 10**7], [truth] * 4)] == [-1.0] * 4
    assert sorted(map(len, seen)) == [0, 2, 10**7]
