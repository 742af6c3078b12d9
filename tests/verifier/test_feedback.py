"""The text that a model gets about its candidate."""

from musadata.records import ErrorClass, Finding
from musadata.verifier.feedback import MAX_CHARACTERS, write_feedback
from musadata.verifier.rules import catalogue as rules


def test_feedback_is_bounded_and_says_whose_fault_it_is():
    findings = [Finding("rule", f"message {number} " + "x" * 900, number) for number in range(10)]
    text = write_feedback(ErrorClass.CORRECTNESS, 0.5, findings)
    assert len(text) <= MAX_CHARACTERS
    assert "50 %" in text
    assert "not the candidate's fault" in write_feedback(ErrorClass.INFRA, 0.0, findings[:1])
    assert write_feedback(None, 1.0, []) == "Correct: all randomised tests passed."


def test_feedback_tells_what_the_catalogue_says_of_a_rule():
    findings = [rules.LEGALITY_COMPUTE.finding("torch.relu", line=12, operator="aten.relu")]
    text = write_feedback(ErrorClass.CHEATING, 0.0, findings)
    assert text.endswith("\n- Line 12: torch.relu computes with PyTorch.")
