"""Candidates of the compiler teacher for references of any size, as other benchmarks judge them.

A reference that can be shrunk gets one that takes its sizes as arguments, so that it can be proven at small sizes; any
other one gets a candidate for its own sizes alone.
"""

from collections.abc import Sequence

from musadata.records import InputSpec
from musadata.rows import plain
from musadata.sandbox import Limits, Sandbox
from musadata.teacher.compiler.candidate_set import CandidateSet, read_graph
from musadata.teacher.compiler.emission.candidate import Candidate
from musadata.teacher.compiler.emission.schedule_plan import PLANS
from musadata.teacher.compiler.ir.lowering_errors import Unsupported
from musadata.verifier.task_from_reference import LoneReference

PRELOAD = (
    "torch",
    "musadata.teacher.compiler.capturing.capture_preload",
    "musadata.teacher.compiler.capturing.several_sizes",
)
_LIMITS = Limits(seconds=40, memory_mb=0)
Form = tuple[str, tuple[InputSpec, ...]]


def write_candidate(sandbox: Sandbox, name: str, lone: LoneReference) -> tuple[str, str]:
    """The text of a candidate, or "" and the reason why there is none."""
    forms = [(form.reference, form.inputs) for form in lone.forms[::-1]]
    own = [(lone.text, lone.measure)] if lone.measure else forms[-1:]
    reasons = []
    for several in ([*own, *forms], own) if lone.measure and forms else (own,):
        source, why = _write(sandbox, name, several)
        if source:
            return source, ""
        reasons.append(why)
    return "", "; ".join(dict.fromkeys(reasons))


def _write(sandbox: Sandbox, name: str, forms: Sequence[Form]) -> tuple[str, str]:
    outcome = sandbox.call(
        "musadata.teacher.compiler.capturing.several_sizes:capture_sizes",
        [[text, [plain(spec) for spec in inputs]] for text, inputs in forms],
        0,
        limits=_LIMITS,
    )
    if not outcome.ok:
        return "", f"tracing failed: {outcome.error_type or outcome.status} {outcome.message}"[:200]
    if "unsupported" in outcome.value:
        return "", str(outcome.value["unsupported"])
    try:
        return _choose(CandidateSet(read_graph(outcome.value), name)).source, ""
    except Unsupported as reason:
        return "", str(reason)


def _choose(candidates: CandidateSet) -> Candidate:
    """The one that does most for its speed: products in registers, or in tiles."""
    found = [candidates.candidate(0)]
    for number in range(1, len(PLANS)):
        one = candidates.candidate(number)
        if one is found[0]:
            break
        found.append(one)
    return max(found, key=lambda one: (one.plan.tile == "registers", bool(one.plan.tile)))
