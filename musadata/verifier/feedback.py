"""The text that a model gets about its candidate: what failed, where, and what that usually means."""

from collections.abc import Sequence

from musadata.records import ErrorClass, Finding
from musadata.verifier.rules.catalogue import INTERFACE_INITIAL_STATE

MAX_CHARACTERS = 2000
_MOST_FINDINGS = 4

_OPENINGS = {
    ErrorClass.COMPILE: "The answer does not compile.",
    ErrorClass.RUNTIME: "The candidate compiles, but fails when it runs.",
    ErrorClass.CORRECTNESS: "The candidate compiles and runs, but its results are not right.",
    ErrorClass.CHEATING: "The candidate pretends to compute: its results must come from kernels of its own.",
    ErrorClass.NOT_ALLOWED: "The candidate uses what is not allowed here: your own CUDA kernels must do the work.",
    ErrorClass.UNSUPPORTED: "The candidate needs what cannot be run here. That says nothing about its results.",
    ErrorClass.INFRA: "The verifier could not judge the candidate. That is not the candidate's fault.",
}


def write_feedback(error_class: ErrorClass | None, test_share: float, findings: Sequence[Finding]) -> str:
    """Bounded in length; shows single elements at the most, never an expected tensor."""
    if error_class is None:
        return "Correct: all randomised tests passed."
    if findings and findings[0].rule == INTERFACE_INITIAL_STATE.id:
        lines = ["The candidate is right with parameters that are copied into it, but it starts with other ones."]
    elif findings and findings[0].rule.startswith("interface."):
        lines = ["The candidate compiles, but what it defines or returns is not the module's."]
    else:
        lines = [_OPENINGS[error_class]]
    if error_class is ErrorClass.CORRECTNESS and not (findings and findings[0].rule.startswith("interface.")):
        lines.append(f"{round(100 * test_share)} % of the randomised tests passed.")
    shown = list(dict.fromkeys(_sentence(finding) for finding in findings))
    lines += [f"- {sentence}" for sentence in shown[:_MOST_FINDINGS]]
    if len(shown) > _MOST_FINDINGS:
        lines.append(f"- and {len(shown) - _MOST_FINDINGS} more of this kind.")
    text = "\n".join(lines)
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 2] + " …"


def _sentence(finding: Finding) -> str:
    place = f"Line {finding.line}: " if finding.line else ""
    return f"{place}{finding.message}"
