"""Whether a run was legal, whatever its results: operators, launches, replaced functions, replay with null kernels."""

from collections.abc import Iterator, Sequence

import numpy as np

from musadata.records import Finding
from musadata.verifier.protocol.messages import Call, CallFacts
from musadata.verifier.protocol.tensors import Array, unpack
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.aten_operators import is_allowed
from musadata.verifier.trusted.candidate_report import Report, digest_of
from musadata.verifier.trusted.expectation import Expectation

# A forward may read a few sizes or flags; more than these is work that kernels should do.
_HOST_ELEMENTS = 16
# Filling or copying far more parts of tensors than it launches kernels is PyTorch doing the work.
_MOST_PARTS = 16
_PARTS_PER_LAUNCH = 4
_MOST_NAMED = 200  # replaced functions
_KERNELS_NAMED = 3


def check_runtime_legality(report: Report, calls: Sequence[Call], expectation: Expectation) -> list[Finding]:
    """What a run did that some policy does not allow."""
    findings = [rules.RUNTIME_TAMPERED.finding(name) for name in report.facts.tampered[:_MOST_NAMED]]
    if report.facts.threads:
        findings.append(rules.RUNTIME_THREADS.finding(report.facts.threads))
    for name in report.changed_state():
        findings.append(rules.RUNTIME_STATE.finding(name))
    findings += _check_operators(report)
    if any(item.error is None for item in report.honest_calls()) and not report.kernels():
        findings.append(rules.RUNTIME_NO_LAUNCH.finding())
    skipped = _skipped_kernels(report, calls)
    if skipped:
        findings.append(rules.RUNTIME_KEPT_RESULT.finding(skipped))
    return findings + _check_null_replay(report, calls, expectation)


def _check_operators(report: Report) -> Iterator[Finding]:
    """Work that PyTorch or the host does instead of kernels."""
    for name in report.operators():
        if not is_allowed(name):
            yield rules.RUNTIME_OPERATOR.finding(name, operator=name)
    for records in (item.records for item in report.honest_calls()):
        if records.parts > max(_MOST_PARTS, _PARTS_PER_LAUNCH * records.launches):
            text = f"The forward fills or copies {records.parts} parts of tensors with PyTorch, launching "
            text += f"{records.launches} kernels: the work must be done by kernels."
            yield rules.RUNTIME_OPERATOR.worded(text, operator="aten.copy_")
            break
    yield from check_host(max((item.records.to_host for item in report.work()), default=0))


def check_host(moved: int) -> Iterator[Finding]:
    """A finding if a call moves more values to the host than sizes and flags."""
    if moved > _HOST_ELEMENTS:
        yield rules.RUNTIME_HOST.finding(moved)


def _skipped_kernels(report: Report, calls: Sequence[Call]) -> str:
    """The kernels of a call that launches none when its inputs are no longer new; "" if there is no such call."""
    made = {call.name: report.calls[call.name] for call in calls if call.name in report.calls}
    new = {call.set: made.get(call.name, CallFacts()) for call in calls[::-1]}  # of each set the first call
    again = [call for call in calls if call.settled and call.name in made and made[call.name].error is None]
    skipping = (new[call.set].records.kernels for call in again if not made[call.name].records.kernels)
    return name_kernels(next(filter(None, skipping), ()))


def name_kernels(kernels: Sequence[str]) -> str:
    """The first of these names, for a message."""
    names = list(dict.fromkeys(kernels))
    return ", ".join(names[:_KERNELS_NAMED])[:200] + (", …" if len(names) > _KERNELS_NAMED else "")


def _check_null_replay(report: Report, calls: Sequence[Call], expectation: Expectation) -> list[Finding]:
    """Whether the results are right although its kernels do nothing."""
    replay = next((call for call in calls if call.null_kernels), None)
    honest = next((call for call in calls if replay and call.set == replay.set), None)
    if replay is None or honest is None or honest.name not in report.results:
        return []
    # Constant outputs say nothing, and copies that PyTorch may make are the same either way.
    arrays = report.results[honest.name].arrays
    telling = [index for index, array in enumerate(arrays) if _is_telling(array)]
    replayed = report.results[replay.name].arrays if replay.name in report.results else ()
    same = {index for index, array in enumerate(replayed[: len(arrays)]) if array.raw == arrays[index].raw}
    if telling and same.issuperset(telling):
        return [rules.RUNTIME_DECOY.finding(name_kernels(report.kernels()))]
    given = (expectation.sets[replay.set].inputs, expectation.state)
    before = {digest_of(array.raw) for data in given for array in unpack(data).values()}
    written = set(report.calls.get(replay.name, CallFacts()).written) - before  # by PyTorch's operators
    if telling and all(index in same or digest_of(arrays[index].raw) in written for index in telling):
        text = (
            "PyTorch's copies have put the result together when its kernels have done nothing yet: these "
            f"({name_kernels(report.kernels())}) only copy it."
        )
        return [rules.RUNTIME_DECOY.worded(text)]
    return []


def _is_telling(array: Array) -> bool:
    return bool(array.values.size) and (array.values.size == 1 or bool(np.ptp(array.values.real) != 0))
