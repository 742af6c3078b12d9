"""The reward function with the real verifier; `tests/rewards` has what a stand-in can show."""

import json

import pytest

from musadata.rewards import RewardFunction, scoring
from musadata.rows import plain


@pytest.fixture
def function(verifier, monkeypatch):
    """A reward function whose verifier is the one of all tests."""

    class Shared:
        def __enter__(self):
            return verifier

    monkeypatch.setattr(scoring, "Verifier", lambda *_, **__: Shared())
    function = RewardFunction()
    yield function
    function._verifier = None
    function.close()


def test_right_and_wrong_answers_have_the_papers_rewards(function, relu_task, relu):
    truth = json.dumps({"task": plain(relu_task), "shape_sets": []})
    answers = [relu, relu.replace("x[i] < 0.0f", "x[i] < 1.0f"), "no code", relu.replace("i < n", "i <")]
    scores = function.score(answers, [truth] * 4)
    assert scores[0].reward == 1.0
    assert -1.0 <= scores[1].reward < 0.0
    assert [score.reward for score in scores[2:]] == [-1.0, -1.0]
    assert [score.verdict.error_class for score in scores[1:]] == ["correctness", "compile", "compile"]


def test_a_task_whose_reference_does_not_run_gives_no_reward(function, relu_task, relu):
    broken = plain(relu_task) | {"task_id": "task-broken", "reference": "raise ValueError"}
    (score,) = function.score([relu], [json.dumps({"task": broken, "shape_sets": []})])
    assert (score.reward, score.verdict.error_class, score.accepted) == (None, "infra", False)
