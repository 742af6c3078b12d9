"""Candidates of the compiler teacher for references of any size, as other benchmarks judge them.

A reference that can be shrunk gets one that takes its sizes as arguments, so that it can be proven at small sizes; any
other one gets a candidate for its own sizes alone.
"""

import math
from collections.abc import Sequence

from musadata.compiler.candidate_set import CandidateSet, read_graph
from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.records import InputSpec
from musadata.rows import plain
from musadata.sandbox import Limits, Sandbox
from musadata.teacher.reasoning.schedule_choice import expected_seconds
from musadata.verifier.task_from_reference import LoneReference

PRELOAD = (
    "torch",
    "musadata.compiler.capturing.capture_preload",
    "benchmarks.several_sizes",
)
_LIMITS = Limits(seconds=40, memory_mb=0)
Form = tuple[str, tuple[InputSpec, ...]]


def write_candidates(sandbox: Sandbox, name: str, lone: LoneReference) -> tuple[list[Candidate], str]:
    """The candidates of all plans, those first that are expected to be the fastest; or why there are none."""
    forms = [(form.reference, form.inputs) for form in lone.forms[::-1]]
    own = [(lone.text, lone.measure)] if lone.measure else forms[-1:]
    reasons = []
    for several in ([*own, *forms], own) if lone.measure and forms else (own,):
        found, why = _write(sandbox, name, several)
        if found:
            return found, ""
        reasons.append(why)
    return [], "; ".join(dict.fromkeys(reasons))


def _write(sandbox: Sandbox, name: str, forms: Sequence[Form]) -> tuple[list[Candidate], str]:
    outcome = sandbox.call(
        "benchmarks.several_sizes:capture_sizes",
        [[text, [plain(spec) for spec in inputs]] for text, inputs in forms],
        0,
        limits=_LIMITS,
    )
    if not outcome.ok:
        return [], f"tracing failed: {outcome.error_type or outcome.status} {outcome.message}"[:200]
    if "unsupported" in outcome.value:
        return [], str(outcome.value["unsupported"])
    try:
        return _all_of(CandidateSet(read_graph(outcome.value), name)), ""
    except Unsupported as reason:
        return [], str(reason)


def _all_of(candidates: CandidateSet) -> list[Candidate]:
    """All different ones, by the times that are expected of them at the task's sizes."""
    found = [candidates.candidate(0)]
    for number in range(1, len(PLANS)):
        one = candidates.candidate(number)
        if one is found[0]:
            break
        found.append(one)
    return sorted(
        found,
        key=lambda one: expected_seconds(one, max(one.hints, key=lambda hints: math.prod(hints.values()), default={})),
    )
