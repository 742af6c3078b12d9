"""A candidate at the size that its task declares, in the emulator: its host code, some blocks of its launch, and all of
them where that is little enough work.

It has been right at smaller sizes. What is refused there is certain: a launch that no device accepts, an exception, and
wrong values. Where only some blocks run, these are the ones that a block has written from inputs alone; what the others
write is not seen.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from musadata.records import Finding, InputSpec
from musadata.sandbox import Limits
from musadata.verifier.protocol.entry_points import RUN_CANDIDATE
from musadata.verifier.protocol.message_encoding import serve_candidate
from musadata.verifier.protocol.messages import Call, ContextMade, Proceed, RequestContext, RequestDevice, RequestPlan
from musadata.verifier.protocol.tensors import Array
from musadata.verifier.protocol.variants import BELOW, DECLARED, ORDERED_ACROSS, PLAIN, InputSet
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.native.called_functions import named_in
from musadata.verifier.trusted.candidate_report import Report, Result, read_facts, read_report
from musadata.verifier.trusted.candidate_session import Compilations, describe_plan
from musadata.verifier.trusted.compare import compare_result
from musadata.verifier.trusted.expectation import BadReference, Expectation, ExpectedSet
from musadata.verifier.trusted.judge import describe_exception, refused_launches
from musadata.verifier.trusted.plan import derive_seed
from musadata.verifier.trusted.verifier_resources import Resources

_BACKEND = "emulated"
_MOST_ELEMENTS = 1 << 24  # of all inputs
MOST_IN_FULL = 1 << 22
_REFERENCE_SECONDS, _SECONDS, _SECONDS_IN_FULL = 5.0, 5.0, 8.0
_POISONS = (0xFF, 0x7B, 0xC2)  # NaN, large and small: what depends on memory that no block has written differs
_CALLS = (
    *(Call(0, f"sampled{poison}", poison=poison, sampled=True, may_refuse=True) for poison in _POISONS),
    Call(0, "untouched", poison=_POISONS[0], null_kernels=True),
)
_IN_FULL = (Call(0, "whole"), Call(1, "extreme"))  # one more set has its extremes last, or is mostly one integer
_GROSS = 8.0  # times what is allowed elsewhere: sums of many values differ by more than those of few
_FEW_INTEGERS = 0.01  # of an output may differ where real values nearly tie
_SHARING = re.compile(r"atomic|grid_group|this_grid|__threadfence|volatile|cooperative")  # blocks that need others
_NO_FAULT = ("memory", "not emulated")


def judge_declared(
    opened: Resources, reference: str, specs: Sequence[InputSpec], source: str, ported: str
) -> list[Finding]:
    """What is certainly wrong with a candidate at the declared size; nothing also where that is too much to be run."""
    backend = opened.backend
    elements = sum(math.prod(spec.shape) for spec in specs)
    if backend.name != _BACKEND or elements > _MOST_ELEMENTS:
        return []
    seed = derive_seed(opened.config, reference, "state")
    in_full = elements <= MOST_IN_FULL
    extreme = BELOW if any(spec.kind in ("normal", "uniform") for spec in specs) else ORDERED_ACROSS
    drawn = [
        InputSet(0, variant, derive_seed(opened.config, reference, "declared"))
        for variant in (PLAIN, extreme)[: 1 + in_full]
    ]
    try:
        expectation = opened.references.expect(reference, [specs], drawn, seed, _REFERENCE_SECONDS, lean=True)
    except BadReference:
        return []
    calls = _CALLS + _IN_FULL[: len(expectation.sets) * in_full]  # on some variants a reference gives nothing
    compilations = Compilations(backend, named_in(source))

    def serve(question: object) -> object:
        if isinstance(question, RequestPlan):
            return describe_plan(expectation, calls, seed)
        waits = isinstance(question, (RequestContext, ContextMade, RequestDevice))
        return Proceed() if waits else compilations.serve(question)

    limits = Limits(seconds=_SECONDS_IN_FULL if in_full else _SECONDS, memory_mb=opened.config.memory_mb)
    outcome = opened.candidates.call(RUN_CANDIDATE, ported, backend.child, limits=limits, serve=serve_candidate(serve))
    report = read_report(read_facts(outcome), outcome.files, calls)
    return [
        replace(finding, message=f"At the declared size: {finding.message}", condition=DECLARED)
        for finding in _find(report, expectation, source)
    ]


def _find(report: Report, expectation: Expectation, source: str) -> list[Finding]:
    first = report.calls.get(_CALLS[0].name)
    if first is None:
        return []
    if first.records.refused:
        return refused_launches(report, {})
    for call in _IN_FULL[: len(expectation.sets)]:
        result = report.results.get(call.name)
        wrong = _grossly_wrong(expectation.sets[call.set], result) if result else []
        if wrong:
            return wrong
    alone = first.records.launches == 1 and not _SHARING.search(source)
    faults = report.kernel_faults()
    if faults:
        return [rules.device_rule(kind).worded(text, line) for kind, text, line, _ in faults] if alone else []
    if first.error:
        is_fault = not first.records.to_host and not any(sign in first.error.message for sign in _NO_FAULT)
        return [describe_exception(first.error)] if is_fault and not first.records.launches else []
    results = [report.results.get(call.name) for call in _CALLS]
    if not alone or any(result is None for result in results[: len(_POISONS)]):
        return []
    wanted = expectation.sets[0]
    sampled = [result.arrays for result in results if result is not None]
    if any([array.shape for array in arrays] != [one.shape for one in wanted.expected] for arrays in sampled):
        return list(compare_result(wanted, Result(results[0].structure, sampled[0]))) if results[0] else []
    seen = tuple(
        _only_seen([arrays[at] for arrays in sampled[: len(_POISONS)]], sampled[len(_POISONS) :], at, want)
        for at, want in enumerate(wanted.expected)
    )
    return list(compare_result(wanted, Result(wanted.structure, seen)))


def _grossly_wrong(wanted: ExpectedSet, result: Result) -> list[Finding]:
    """What is wrong with a whole result beyond what many roundings make of it."""
    tolerances = tuple(
        replace(one, relative=_GROSS * one.relative, slack=_GROSS * one.slack, typical=0.0) for one in wanted.tolerances
    )
    arrays = tuple(
        want if got.shape == want.shape and want.values.dtype.kind not in "fc" and _nearly_equal(got, want) else got
        for got, want in zip(result.arrays, wanted.expected, strict=False)
    )
    return list(compare_result(replace(wanted, tolerances=tolerances), Result(result.structure, arrays)))


def _nearly_equal(got: Array, want: Array) -> bool:
    return bool(np.mean(got.values != want.values) < _FEW_INTEGERS)


def _only_seen(samples: list[Array], untouched: list[tuple[Array, ...]], at: int, want: Array) -> Array:
    """What some block has written from inputs alone, and the expected values elsewhere."""
    if not want.values.size:
        return samples[0]
    bits = [np.frombuffer(one.raw, np.uint8).reshape(math.prod(one.shape), -1) for one in samples]
    seen = np.logical_and.reduce([(bits[0] == other).all(1) for other in bits[1:]])
    for arrays in untouched:
        seen &= (bits[0] != np.frombuffer(arrays[at].raw, np.uint8).reshape(bits[0].shape)).any(1)
    values = np.where(seen.reshape(want.shape), samples[0].values, want.values)
    return Array(samples[0].dtype, samples[0].shape, values, samples[0].raw)
