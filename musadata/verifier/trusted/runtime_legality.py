"""Whether a run was legal, whatever its results: operators, launches, replaced functions, replay with null kernels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from musadata.records import Finding
from musadata.verifier.protocol.tensors import Array, unpack
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.aten_operators import is_allowed
from musadata.verifier.trusted.candidate_report import Report, count_of, digest_of, listed, records_of
from musadata.verifier.trusted.expectation import Expectation
from musadata.verifier.trusted.plan import Call

# A forward may read a few sizes or flags; more than these is work that kernels should do.
_HOST_ELEMENTS = 16
# Filling or copying far more parts of tensors than it launches kernels is PyTorch doing the work.
_MOST_PARTS = 16
_PARTS_PER_LAUNCH = 4


def check_runtime_legality(
    report: Report, calls: Sequence[Call], expectation: Expectation, strict: bool
) -> list[Finding]:
    """What a run did that no candidate may do."""
    findings = []
    for name in listed(report.facts.get("tampered")):
        findings.append(rules.RUNTIME_TAMPERED.finding(name))
    if report.facts.get("threads"):
        findings.append(rules.RUNTIME_THREADS.finding())
    for name in report.changed_state():
        findings.append(rules.RUNTIME_STATE.finding(name))
    if strict:
        for name in report.operators():
            if not is_allowed(name):
                findings.append(rules.RUNTIME_OPERATOR.finding(name, operator=name))
        findings += _written_by_parts(report)
        moved = max((count_of(item, "to_host") for item in report.work()), default=0)
        if moved > _HOST_ELEMENTS:
            findings.append(rules.RUNTIME_HOST.finding(moved))
    ran = [item for item in report.honest_calls() if "error" not in item]
    if ran and not report.kernels():
        findings.append(rules.RUNTIME_NO_LAUNCH.finding())
    if _keeps_results(report, calls):
        text = "Called again with the same inputs the forward launches no kernel: it keeps its result."
        findings.append(rules.RUNTIME_STATE.worded(text))
    findings += _check_null_replay(report, calls, expectation, strict)
    return findings


def _written_by_parts(report: Report) -> list[Finding]:
    for item in report.honest_calls():
        parts, launches = count_of(item, "parts"), count_of(item, "launches")
        if parts > max(_MOST_PARTS, _PARTS_PER_LAUNCH * launches):
            text = f"The forward fills or copies {parts} parts of tensors with PyTorch, launching {launches} kernels: "
            text += "the work must be done by kernels."
            return [rules.RUNTIME_OPERATOR.worded(text, operator="aten.copy_")]
    return []


def _keeps_results(report: Report, calls: Sequence[Call]) -> bool:
    """Whether a call launches nothing that launched kernels when its inputs were new."""
    launched = {
        call.name: records_of(report.calls[call.name], "kernels") for call in calls if call.name in report.calls
    }
    new = {call.set: launched.get(call.name) for call in calls[::-1]}  # of each set the first call
    again = [
        call for call in calls if call.settled and call.name in launched and "error" not in report.calls[call.name]
    ]
    return any(new[call.set] and not launched[call.name] for call in again)


def _check_null_replay(report: Report, calls: Sequence[Call], expectation: Expectation, strict: bool) -> list[Finding]:
    """What the results are when its kernels do nothing."""
    null_kernels = next((call for call in calls if call.null_kernels), None)
    honest = next((call for call in calls if null_kernels and call.set == null_kernels.set), None)
    if null_kernels is None or honest is None or honest.name not in report.results:
        return []
    # Constant outputs say nothing, and copies that PyTorch may make are the same either way.
    arrays = report.results[honest.name].arrays
    telling = [index for index, array in enumerate(arrays) if _is_telling(array)]
    replayed = report.results[null_kernels.name].arrays if null_kernels.name in report.results else ()
    same = {index for index, array in enumerate(replayed[: len(arrays)]) if array.raw == arrays[index].raw}
    if telling and same.issuperset(telling):
        return [rules.RUNTIME_DECOY.finding()]
    there = _written_by_operators(
        report.calls.get(null_kernels.name, {}), expectation.sets[null_kernels.set].inputs, expectation.state
    )
    if strict and telling and all(index in same or digest_of(arrays[index].raw) in there for index in telling):
        text = (
            "PyTorch's copies have put the result together when its kernels have done nothing yet: these only copy it."
        )
        return [rules.RUNTIME_DECOY.worded(text)]
    return []


def _is_telling(array: Array) -> bool:
    return bool(array.values.size) and (array.values.size == 1 or bool(np.ptp(array.values.real) != 0))


def _written_by_operators(item: dict[str, Any], *given: bytes) -> set[str]:
    """Digests of what PyTorch's operators wrote, but for what was there before."""
    before = {digest_of(array.raw) for data in given for array in unpack(data).values()}
    return {str(digest) for digest in listed(item.get("written"))} - before
