"""Candidates of the compiler teacher for references at their own sizes. `capture_unfilled` runs inside the sandbox."""

from typing import Any

from musadata.records import InputSpec
from musadata.rows import plain
from musadata.sandbox import Limits, Sandbox
from musadata.teacher.compiler.candidate_set import CandidateSet, read_graph
from musadata.teacher.compiler.ir.lowering_errors import Unsupported

PRELOAD = ("torch", "musadata.teacher.compiler.capturing.capture_preload", "benchmarks.kernelbench_candidates")
_LIMITS = Limits(seconds=60, memory_mb=0)


def write_candidate(sandbox: Sandbox, name: str, reference: str, inputs: tuple[InputSpec, ...]) -> tuple[str, str]:
    """The text of a candidate, or "" and the reason why there is none."""
    outcome = sandbox.call(
        "benchmarks.kernelbench_candidates:capture_unfilled",
        reference,
        [plain(spec) for spec in inputs],
        limits=_LIMITS,
    )
    if not outcome.ok:
        return "", f"tracing failed: {outcome.error_type or outcome.status} {outcome.message}"[:200]
    if "unsupported" in outcome.value:
        return "", str(outcome.value["unsupported"])
    try:
        return CandidateSet(read_graph(outcome.value), name).candidate(0).source, ""
    except Unsupported as reason:
        return "", str(reason)


def capture_unfilled(reference: str, inputs: list[dict[str, Any]]) -> dict[str, Any]:
    """The teacher's graph of a reference; its inputs are allocated and never filled: tracing needs their sizes only."""
    import torch

    from musadata.teacher.compiler.capturing import capture as capturing
    from musadata.tracing.inputs import parse_literal

    def make_unfilled(specs: list[InputSpec], seed: int) -> list[Any]:
        return [
            parse_literal(spec.literal)
            if spec.kind == "literal"
            else torch.empty(spec.shape, dtype=getattr(torch, spec.dtype))
            for spec in specs
        ]

    capturing.draw = make_unfilled  # type: ignore[assignment]
    return capturing.capture(reference, [inputs], 0)
