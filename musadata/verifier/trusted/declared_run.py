"""A candidate at the size that its task declares, in the emulator: all of its launches where that is little work, or
else some blocks of each; over memory that is reserved and never touched where even the inputs are too large.

It has been right at smaller sizes. What is refused there is certain: a launch that no device accepts, an exception, and
wrong values. Where only some blocks run, these are the ones that a block has written from inputs alone; what the others
write is not seen.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from musadata.records import Finding, InputSpec
from musadata.sandbox import Limits
from musadata.verifier.protocol.entry_points import CONSTRUCTOR_ARGUMENTS
from musadata.verifier.protocol.messages import Call, CallFacts, Plan
from musadata.verifier.protocol.tensors import Array
from musadata.verifier.protocol.tolerance import Tolerance
from musadata.verifier.protocol.variants import BELOW, FOR_CHOICES, OFFSET, ORDERED_ACROSS, PLAIN, InputSet
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.native.called_functions import named_in
from musadata.verifier.trusted.candidate_report import Report, Result, read_facts, read_report
from musadata.verifier.trusted.candidate_session import Compilations, describe_plan, run_untimed
from musadata.verifier.trusted.compare import compare_result, find_outside_harness
from musadata.verifier.trusted.expectation import BadReference, Expectation, ExpectedSet
from musadata.verifier.trusted.judge import NO_FAULT, describe_exception, fails_on_host, refused_launches
from musadata.verifier.trusted.plan import derive_seed
from musadata.verifier.trusted.verifier_resources import Resources

EMULATED = "emulated"
_MOST_ELEMENTS = 1 << 26  # of all inputs that are drawn
_MOST_WORK = 1 << 27  # as `tasks.sizing` counts it, where all do: what is more does not end in time
_STREAMED = 8  # work for each element of the inputs: what reads each a few times ends in time
_MOST_SAMPLED = 1 << 32  # where some blocks do: a reference that takes longer than it may
_FEW_WORK = 1 << 24  # more than one set of inputs
_CHOOSING_WORK = 1 << 26  # those that a choice among values, or a count of them, may be wrong for
_SECONDS, _SECONDS_WHOLE = 5.0, 12.0  # of CPU time; what takes longer says nothing
_FILE_MB, _RESERVED_MB = 1200, 1 << 18
_POISONS = (0xFF, 0x7B, 0xC2)  # NaN, large and small: what depends on memory that no block has written differs
_SAMPLED = (
    *(Call(0, f"sampled{poison}", poison=poison, sampled=True, may_refuse=True) for poison in _POISONS),
    Call(0, "untouched", poison=_POISONS[0], null_kernels=True),
)
_FEWEST = 2  # that tell what a block has written from what it has not; there may be no time for more
_MOST_SETS = 6
_WHOLE = (
    Call(0, "whole", check="brief"),
    *(Call(at, f"extreme{at}", order="reverse" if at % 2 else "forward") for at in range(1, _MOST_SETS)),
)
_GROSS = 8.0  # times what is allowed elsewhere: sums of many values differ by more than those of few
_FEW_INTEGERS = 0.01  # of an output may differ where real values of inputs or parameters nearly tie
_PART = 1 << 22  # elements that are compared at a time
_SHARING = re.compile(r"atomic|grid_group|this_grid|__threadfence|volatile|cooperative")  # blocks that need others


@dataclass(frozen=True)
class DeclaredRun:
    """What is certainly wrong with a candidate at the declared size, and whether all of its launches have run there."""

    findings: tuple[Finding, ...] = ()
    is_whole: bool = False


@dataclass(frozen=True)
class Declared:
    """A reference at its declared size, or near it. `work`: of one call, as `tasks.sizing` counts it."""

    reference: str
    specs: tuple[InputSpec, ...]
    work: int

    @property
    def elements(self) -> int:
        """Of all inputs."""
        return sum(math.prod(spec.shape) for spec in self.specs)

    @property
    def is_little(self) -> bool:
        """Whether all launches may be run."""
        return self.elements <= _MOST_ELEMENTS and self.work <= max(_MOST_WORK, _STREAMED * self.elements)


def judge_declared(opened: Resources, declared: Declared, source: str, ported: str) -> DeclaredRun:
    """Run a candidate as a whole if that is little work, or else some of its blocks; nothing is found where that is too
    much, too."""
    if opened.backend.name != EMULATED:
        return DeclaredRun()
    if declared.is_little:
        found, seen, count = _run_whole(opened, declared, source, ported, _SECONDS_WHOLE)
        if found or seen:
            return DeclaredRun(tuple(found), seen == count)
    is_drawn = declared.elements <= _MOST_ELEMENTS and declared.work <= _MOST_SAMPLED
    expectation = _expect(opened, declared) if is_drawn else None
    if expectation:
        report = _run(opened, declared, expectation, _SAMPLED, source, ported)
        return DeclaredRun(tuple(_find_in_sample(report, expectation, source)))
    return DeclaredRun(tuple(_find_over_reserved(opened, declared, source, ported)))


def judge_whole(opened: Resources, near: Declared, source: str, ported: str) -> list[Finding]:
    """What is certainly wrong with all launches of a candidate where only some sizes are as declared."""
    is_seen = opened.backend.name == EMULATED and near.elements <= _MOST_ELEMENTS
    return _run_whole(opened, near, source, ported, _SECONDS)[0] if is_seen else []


def _run_whole(
    opened: Resources, declared: Declared, source: str, ported: str, seconds: float
) -> tuple[list[Finding], int, int]:
    """What is found, how many input sets have been run, and of how many."""
    expectation = _expect(opened, declared, declared.work)
    if expectation is None:
        return [], 0, 1
    report = _run(opened, declared, expectation, _WHOLE[: len(expectation.sets)], source, ported, seconds)
    has_real = bool(expectation.initial) or any("float" in spec.dtype for spec in declared.specs)
    return *_find_in_whole(report, expectation, _FEW_INTEGERS if has_real else 0.0), len(expectation.sets)


def _expect(opened: Resources, declared: Declared, work: float = math.inf) -> Expectation | None:
    """What the reference gives; for further inputs as well where a call is no more than so much `work`."""
    is_real = any(spec.kind in ("normal", "uniform") for spec in declared.specs)
    further: tuple[str, ...] = ()
    if is_real and work <= _FEW_WORK:
        further += (BELOW, OFFSET)  # extremes are last, or all on one side
    if work <= _CHOOSING_WORK:
        further += FOR_CHOICES if is_real else (ORDERED_ACROSS,)  # or all are one integer
    drawn = [
        InputSet(0, variant, derive_seed(opened.config, declared.reference, "declared"))
        for variant in (PLAIN, *further)
    ]
    seed = derive_seed(opened.config, declared.reference, "state")
    try:
        return opened.references.expect(declared.reference, [declared.specs], drawn, seed, lean=True)
    except BadReference:
        return None


def _run(
    opened: Resources,
    declared: Declared,
    expectation: Expectation,
    calls: Sequence[Call],
    source: str,
    ported: str,
    seconds: float = _SECONDS,
) -> Report:
    compilations = Compilations(opened.backend, named_in(source))
    seed = derive_seed(opened.config, declared.reference, "state")
    limits = Limits(seconds=seconds, memory_mb=opened.config.memory_mb, file_mb=_FILE_MB)
    plan = partial(describe_plan, expectation, calls, seed)
    outcome = run_untimed(opened.candidates, compilations, ported, plan, limits)
    return read_report(read_facts(outcome), outcome.files, calls)


def _find_in_whole(report: Report, expectation: Expectation, few: float) -> tuple[list[Finding], int]:
    """What is wrong, and how many input sets have been run. `few`: the share of an output's integers that may
    differ."""
    for call in _WHOLE[: len(expectation.sets)]:
        made, result = report.calls.get(call.name), report.results.get(call.name)
        if made is None:  # there was no time for it
            return [], call.set
        if made.records.refused:
            return refused_launches(made.records), call.set
        if result is None or made.records.reports:
            found = _find_in_failure(report, made, certain=True)
            if found or result is None:
                return found, call.set
        wrong = _grossly_wrong(expectation.sets[call.set], result, few)
        if wrong:
            is_plain = call.set == 0
            return [*wrong, *(find_outside_harness(expectation.sets[0], result) if is_plain else ())], call.set
    return [], len(expectation.sets)


def _find_in_failure(report: Report, made: CallFacts, certain: bool) -> list[Finding]:
    """What is said of a call that has failed. Unless it is `certain`, it may have read what blocks were to write that
    were left out."""
    faults = report.kernel_faults()
    if faults:
        return [rules.device_rule(kind).worded(text, line) for kind, text, line, _ in faults] if certain else []
    if certain and made.error and not any(sign in made.error.message for sign in NO_FAULT):
        return [describe_exception(made.error)]
    return fails_on_host(made)


def _find_in_sample(report: Report, expectation: Expectation, source: str) -> list[Finding]:
    first = report.calls.get(_SAMPLED[0].name)
    if first is None:
        return []
    if first.records.refused:
        return refused_launches(first.records)
    alone = first.records.launches == 1 and not _SHARING.search(source)
    if report.kernel_faults() or first.error:
        return _find_in_failure(report, first, alone and not first.error)
    results = [report.results[call.name] for call in _SAMPLED if call.name in report.results]
    if not alone or len(results) < _FEWEST:
        return []
    wanted = expectation.sets[0]
    if any([array.shape for array in one.arrays] != [array.shape for array in wanted.expected] for one in results):
        return list(compare_result(wanted, results[0]))
    sampled, untouched = ([one.arrays for one in some] for some in (results[: len(_POISONS)], results[len(_POISONS) :]))
    seen = tuple(
        _only_seen([arrays[at] for arrays in sampled], untouched, at, want) for at, want in enumerate(wanted.expected)
    )
    result = Result(wanted.structure, seen)
    return [*compare_result(wanted, result), *find_outside_harness(wanted, result)]


def _find_over_reserved(opened: Resources, declared: Declared, source: str, ported: str) -> list[Finding]:
    """What is wrong whatever the values are: launches, and accesses of a first launch, whose inputs are zeros."""
    arguments = opened.reference_sandbox.call(CONSTRUCTOR_ARGUMENTS, declared.reference)
    if not arguments.ok:
        return []
    plan = Plan(arguments.value, (), 0, (), (), None, b"", {}, {}, declared.specs)
    memory_mb = opened.config.memory_mb
    limits = Limits(seconds=_SECONDS, memory_mb=memory_mb, reserved_mb=_RESERVED_MB, file_mb=_FILE_MB)
    compilations = Compilations(opened.backend, named_in(source))
    facts = read_facts(run_untimed(opened.candidates, compilations, ported, lambda: plan, limits))
    made = facts.reserved
    if made.records.to_host:  # what it read there means nothing
        return []
    if made.records.refused:
        return refused_launches(made.records)
    report = Report(facts, {"reserved": made}, {}, ())
    is_real = all(spec.kind in ("normal", "uniform", "literal") for spec in declared.specs)
    return _find_in_failure(report, made, is_real and made.records.launches == 1 and not _SHARING.search(source))


def _grossly_wrong(wanted: ExpectedSet, result: Result, few: float) -> list[Finding]:
    """What is wrong with a whole result beyond what many roundings make of it: in the first part of an output where
    anything is."""
    if result.structure != wanted.structure or [one.shape for one in result.arrays] != [
        one.shape for one in wanted.expected
    ]:
        return list(compare_result(wanted, result))
    for got, want, oracle, condition, tolerance in zip(
        result.arrays, wanted.expected, wanted.oracle, wanted.conditions, wanted.tolerances, strict=True
    ):
        if want.values.dtype.kind not in "fc" and np.mean(got.values != want.values) < few:
            continue
        loose = replace(tolerance, relative=_GROSS * tolerance.relative, slack=_GROSS * tolerance.slack, typical=0.0)
        for start in range(0, want.values.size, _PART):
            cut = [_cut(array, start) for array in (got, want, oracle)]
            if got.dtype == want.dtype and _is_near(cut[0].values, cut[1].values, loose):
                continue
            part = replace(wanted, expected=(cut[1],), oracle=(cut[2],), conditions=(condition,), tolerances=(loose,))
            wrong = compare_result(part, Result(wanted.structure, (cut[0],)))
            if wrong:
                place = f"From flat index {start} on: " if want.values.size > _PART else ""
                return [replace(one, message=f"{place}{one.message}") for one in wrong]
    return []


def _cut(array: Array, start: int) -> Array:
    """The part of a large array that begins at a flat index; the whole of a small one."""
    if array.values.size <= _PART:
        return array
    values = array.values.reshape(-1)[start : start + _PART]
    return replace(array, shape=values.shape, values=values)


def _is_near(got: np.ndarray, want: np.ndarray, tolerance: Tolerance) -> bool:
    """Whether `compare_result` surely finds nothing, at little cost."""
    if want.dtype.kind not in "fc":
        return False
    with np.errstate(all="ignore"):
        return bool((np.abs(got - want) <= tolerance.relative * np.abs(want) + tolerance.slack).all())


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
