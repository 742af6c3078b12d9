"""The paper's reward and the feedback text."""

import pytest

from musadata.config import SamplingConfig
from musadata.records import ErrorClass, Finding
from musadata.verifier.feedback import MAX_CHARACTERS, write_feedback
from musadata.verifier.reward import reward


@pytest.mark.parametrize(
    ("error_class", "share", "speedup", "expected"),
    [
        (None, 1.0, None, 1.0),
        (None, 1.0, 0.5, 1.0),
        (None, 1.0, 2.0, 1.5),
        (None, 1.0, 100.0, 3.0),
        (ErrorClass.CORRECTNESS, 0.5, None, -0.25),
        (ErrorClass.CORRECTNESS, 0.0, None, -1.0),
        (ErrorClass.COMPILE, 0.0, None, -1.0),
        (ErrorClass.RUNTIME, 0.9, None, -1.0),
        (ErrorClass.CHEATING, 1.0, 50.0, -1.0),
        (ErrorClass.INFRA, 0.0, None, 0.0),
    ],
)
def test_reward_follows_the_papers_rule(error_class, share, speedup, expected):
    assert reward(error_class, share, speedup, SamplingConfig(speedup_weight=0.5, speedup_cap=4.0)) == expected


def test_feedback_is_bounded_and_says_whose_fault_it_is():
    findings = [Finding("rule", f"message {number} " + "x" * 900, number) for number in range(10)]
    text = write_feedback(ErrorClass.CORRECTNESS, 0.5, findings)
    assert len(text) <= MAX_CHARACTERS
    assert "50 %" in text
    assert "not the candidate's fault" in write_feedback(ErrorClass.INFRA, 0.0, findings[:1])
    assert write_feedback(None, 1.0, []) == "Correct: all randomised tests passed."
