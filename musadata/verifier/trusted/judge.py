"""From what came back of a run to the facts of a verdict."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from musadata.records import ConditionFact, ErrorClass, Facts, Finding, Timing, VerifyStage
from musadata.sandbox import Outcome
from musadata.verifier.protocol.messages import Call, CallFacts, CallRecords, ErrorFacts, Json
from musadata.verifier.protocol.variants import DECLARED, INFINITE, PLAIN, STRIDED, condition_of
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.trusted.candidate_report import Report
from musadata.verifier.trusted.compare import compare_result, find_outside_harness, same_bits, typical_error
from musadata.verifier.trusted.expectation import Expectation, ExpectedSet
from musadata.verifier.trusted.runtime_legality import check_runtime_legality

_MOST_SENTENCES = 200
MOST_REFERENCE_ERROR = 0.05  # as a share of the typical element
_OWN_FAILURE = "OwnFailure"  # the exception of `execute`
_SEEN_IN_EMULATION = "Seen in emulation: the device does not notice it."


@dataclass(frozen=True)
class Judgement:
    """Everything about a run that goes into a verdict. `stage` is the last one that was reached; `findings` are in the
    order in which verdicts name reasons."""

    stage: VerifyStage
    findings: tuple[Finding, ...] = ()
    conditions: tuple[ConditionFact, ...] = ()
    operators: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    timings: tuple[Timing, ...] = ()
    own_share: float | None = None

    def adding(self, findings: Iterable[Finding]) -> "Judgement":
        """The same with further findings."""
        return replace(self, findings=in_order([*self.findings, *findings]))

    def classes(self) -> set[ErrorClass]:
        """Of all findings."""
        return {rules.RULES[finding.rule].error_class for finding in self.findings}

    @property
    def may_be_timed(self) -> bool:
        """Whether nothing but what some policies allow speaks against it on the inputs that a device times. What only
        the emulator sees keeps no program from being compared for the first time."""
        seen = (one for one in self.findings if self.conditions or not rules.RULES[one.rule].missed_by_devices)
        return not any(map(_forbids_timing, seen))

    @property
    def facts(self) -> Facts:
        """What verdicts hold of it."""
        was_run = self.stage not in (VerifyStage.EXTRACT, VerifyStage.LEGALITY, VerifyStage.COMPILE)
        stopped_by = [rules.RULES[one.rule] for one in self.findings if one.rule != rules.TASK_NOT_DISCRIMINATING.id]
        decided = was_run and not any(rule.error_class.is_undecided for rule in stopped_by)
        compared = self.stage is VerifyStage.TIME or any(one.condition == DECLARED for one in self.conditions)
        against = [rules.RULES[one.rule] for one in self.findings if one.condition in ("", DECLARED)]
        # What a device lets pass, such as a race, says nothing of the results that there are.
        fails = any(rule.error_class is ErrorClass.RUNTIME and not rule.missed_by_devices for rule in against)
        wrong = any(rule.error_class is ErrorClass.CORRECTNESS and rule.id not in _OTHERS for rule in against)
        return Facts(
            compiles=False if ErrorClass.COMPILE in self.classes() else True if was_run else None,
            runs=not fails if decided else None,
            right=None if not decided else False if fails or wrong else True if compared else None,
            conditions=self.conditions,
            findings=self.findings,
            stage=self.stage,
        )


# What is said of results that are right by our tolerance, or with the reference's parameters.
_OTHERS = (rules.CORRECTNESS_HARNESS.id, rules.CORRECTNESS_DRIFT.id, rules.INTERFACE_INITIAL_STATE.id)


def _forbids_timing(finding: Finding) -> bool:
    rule = rules.RULES[finding.rule]
    how = rule.error_class is ErrorClass.NOT_ALLOWED or rule.stage is VerifyStage.LEGALITY  # it computes, and not what
    if how or finding.rule in _OTHERS:
        return False
    return rule.error_class is not ErrorClass.CORRECTNESS or finding.condition in ("", DECLARED)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding once, in the order in which verdicts name reasons."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: rules.RULES[finding.rule].order))


def stopped(*findings: Finding) -> Judgement:
    """A judgement of what was not executed; the first finding says why, and at which stage."""
    return Judgement(rules.RULES[findings[0].rule].stage, in_order(findings))


def judge(
    outcome: Outcome, report: Report, calls: Sequence[Call], expectation: Expectation, seen: Iterable[Finding] = ()
) -> Judgement:
    """All that speaks against a candidate that was run. `seen`: what was found before, in its sources."""
    operators, kernels = report.operators(), report.kernels()
    hindrance = _find_hindrance(report, expectation)
    if hindrance:
        return Judgement(VerifyStage.EXECUTE, in_order([*seen, hindrance]), (), operators, kernels)
    conditions = [condition_of(item.plan) for item in expectation.sets]
    counted, wrong = _judge_results(report, calls, expectation, conditions)
    found = [
        *seen,
        *_mismatches(report),
        *_judge_end(outcome, report, calls, conditions),
        *wrong,
        *check_runtime_legality(report, calls, expectation),
        *_check_start(report, expectation),
    ]
    reserved = report.facts.reserved
    if not reserved.records.to_host:  # what it read there means nothing
        found += map(at_declared, [*refused_launches(reserved.records), *fails_on_host(reserved)])
    finite = [item for item in expectation.sets if item.plan.variant != INFINITE]
    if finite and not any(item.discriminating for item in finite) and not _is_constant(expectation.sets):
        found.append(rules.TASK_NOT_DISCRIMINATING.finding())
    return Judgement(VerifyStage.PROFILE, in_order(found), counted, operators, kernels)


def _find_hindrance(report: Report, expectation: Expectation) -> Finding | None:
    """Why nothing can be said of a candidate."""
    missing = [text for kind, text, _, _ in report.kernel_faults() if kind == "unsupported"]
    if missing:
        return rules.EXECUTE_UNSUPPORTED.finding(missing[0])
    error = report.facts.error
    if error and error.error_type == _OWN_FAILURE and not report.facts.tampered:
        return rules.EXECUTE_OWN_FAILURE.finding(error.message[:300])
    off = _reference_error(expectation)
    return rules.TASK_NO_RIGHT_ANSWER.finding(f"{off:.2g}") if off else None


def add_crosscheck(judgement: Judgement, found: Sequence[Finding]) -> Judgement:
    """The judgement of a device, with what the emulator found in the same candidate."""
    return judgement.adding(replace(one, message=f"{one.message} {_SEEN_IN_EMULATION}") for one in found)


def _is_constant(sets: Sequence[ExpectedSet]) -> bool:
    """Whether the result is the same number for all inputs, or NaN where they are not finite. Then no test could tell a
    candidate that computes it from one that writes it, and both are right."""
    for outputs in zip(*((*zip(one.expected, one.oracle, strict=True),) for one in sets), strict=True):
        values = np.concatenate([array.values.ravel() for pair in outputs for array in pair])
        first = values[:1]
        if not len(values) or not np.isfinite(first).all() or not ((values == first) | np.isnan(values)).all():
            return False
    finite = (array for one in sets if one.plan.variant != INFINITE for array in one.expected)
    return bool(sets) and not any(np.isnan(array.values).any() for array in finite)


def _reference_error(expectation: Expectation) -> float:
    """How far the reference typically is from its own result in double precision, as a share of it; 0 if that is
    rounding. Beyond, what is right is not known, and the tolerance would let anything pass."""
    for item in expectation.sets:
        for want, oracle in zip(item.expected, item.oracle, strict=True):
            if item.plan.variant == PLAIN and want.dtype == "float32":
                off = typical_error(want, oracle)
                if off > MOST_REFERENCE_ERROR:
                    return off
    return 0.0


def _mismatches(report: Report) -> list[Finding]:
    return [rules.INTERFACE_STATE.worded(sentence[:300]) for sentence in report.facts.interface[:_MOST_SENTENCES]]


def _check_start(report: Report, expectation: Expectation) -> list[Finding]:
    """Whether every parameter, and every buffer that the candidate has, starts with the reference's values."""
    others = find_other_start(report.facts.initial, expectation.initial, expectation.parameters)
    return [rules.INTERFACE_INITIAL_STATE.finding(others)] if others else []


def find_other_start(claimed: Json, right: Json, parameters: Collection[str]) -> str:
    """The parameters, and buffers that the candidate has, that do not start with the reference's values; "" if all do.
    Both are digests by name."""
    own, wanted = (found if isinstance(found, Mapping) else {} for found in (claimed, right))
    others = sorted(name for name in wanted if (name in parameters or name in own) and own.get(name) != wanted[name])
    return f"{others[0]}{f' and {len(others) - 1} more' * (len(others) > 1)}" if others else ""


def _judge_end(outcome: Outcome, report: Report, calls: Sequence[Call], conditions: Sequence[str]) -> list[Finding]:
    """Exceptions, crashes, limits and faults of kernels."""
    where = {call.name: conditions[call.set] for call in calls}
    findings = [
        replace(rules.device_rule(kind).worded(text, line), condition=where.get(call, ""))
        for kind, text, line, call in report.kernel_faults()
    ]
    findings += [rules.DEVICE_FAULT.worded(line) for line in report.faults if not findings]
    if not findings:
        findings = [
            replace(finding, condition=where.get(name, ""))
            for name, item in report.calls.items()
            if report.must_succeed(name)
            for finding in refused_launches(item.records)
        ][:2]
    if not findings:
        failed = ((name, item.error) for name, item in report.calls.items() if report.must_succeed(name))
        raised = {where.get(name, ""): error for name, error in failed if error}
        raised |= {"": report.facts.error} if report.facts.error else {}
        findings = [replace(describe_exception(error), condition=condition) for condition, error in raised.items()]
    if outcome.status == "error":
        findings.append(rules.EXECUTE_ERROR.worded(f"{outcome.error_type}: {outcome.message}"[:400]))
    elif not outcome.ok and (outcome.status != "crash" or not findings):
        rule = rules.RULES[f"execute.{outcome.status}"]
        lost = next((call.name for call in calls if call.name not in report.calls), "")
        finding = rule.finding(outcome.message or "lost", line=report.crash_line)
        findings.append(replace(finding, condition=where.get(lost, "") if outcome.status == "crash" else ""))
    return findings


def fails_on_host(made: CallFacts) -> list[Finding]:
    """The exception that a call's host code raises before anything that depends on values: a size that it refuses."""
    if made.error is None or made.records.to_host or made.records.launches:
        return []
    return [] if any(sign in made.error.message for sign in NO_FAULT) else [describe_exception(made.error)]


def describe_exception(error: ErrorFacts) -> Finding:
    """A finding with its type, message, and line in the candidate."""
    message = " ".join(error.message.split())
    return rules.EXECUTE_EXCEPTION.worded(f"{error.error_type}: {message}"[:500], _candidate_line(error.traceback))


def _candidate_line(traceback: str) -> int:
    """The last line of the candidate's own program in a traceback."""
    lines = [line for line in traceback.splitlines() if line.startswith('File "<candidate>"')]
    try:
        return int(lines[-1].split("line ")[1].split(",")[0]) if lines else 0
    except (IndexError, ValueError):
        return 0


NO_FAULT = ("memory", "bad_alloc", "not emulated")  # of the machine, or of the emulator
_CUDA_ERRORS = {
    1: "invalid argument",
    2: "out of memory",
    9: "invalid configuration",
    98: "invalid device function",
    720: "more blocks than the device holds at the same time, as a cooperative launch needs",
}


def refused_launches(records: CallRecords) -> list[Finding]:
    """Launches of a call that CUDA would not accept; a candidate that asks for no error code does not notice."""
    found = []
    for launch in records.refused:
        why = _CUDA_ERRORS.get(launch.error, "refused")
        sizes = [str(size)[:40] for size in (list(launch.grid), list(launch.block), launch.shared_bytes)]
        found.append(rules.DEVICE_LAUNCH.finding(launch.name[:200], why, *sizes))
    return list(dict.fromkeys(found))[:2]


def at_declared(finding: Finding, shrunk: str = "") -> Finding:
    """A finding at the size that a task declares, but for what is `shrunk`, where the proof sets are smaller."""
    but = f", but for {shrunk}" if shrunk else ""
    return replace(finding, message=f"At the declared size{but}: {finding.message}", condition=DECLARED)


def _judge_results(
    report: Report, calls: Sequence[Call], expectation: Expectation, conditions: Sequence[str]
) -> tuple[tuple[ConditionFact, ...], list[Finding]]:
    """How many discriminating input sets of each condition are right, and what is wrong: for each rule and condition
    the first finding."""
    found: dict[tuple[str, str], Finding] = {}
    right: dict[int, bool] = {}
    for call in calls[: len(expectation.sets)]:
        problems = _judge_set(report, call, calls, expectation)
        if problems is not None or not call.may_refuse:
            right[call.set] = problems == []
        result = report.results.get(call.name) if conditions[call.set] == DECLARED else None
        outside = find_outside_harness(expectation.sets[call.set], result) if result else []
        for finding in [*(problems or ()), *outside]:
            condition = conditions[call.set]
            found.setdefault((finding.rule, condition), replace(finding, condition=condition))
    counted = [index for index, item in enumerate(expectation.sets) if item.discriminating and index in right]
    facts = []
    for condition in dict.fromkeys(conditions):
        results = [right[index] for index in counted if conditions[index] == condition]
        facts.append(ConditionFact(condition, sum(results), len(results)))
    for call in (one for one in calls if one.strided and one.name in report.calls and right.get(one.set)):
        strided = _judge_strided(report, call, expectation)
        facts.append(ConditionFact(STRIDED, int(not strided), 1))
        found |= {(finding.rule, STRIDED): replace(finding, condition=STRIDED) for finding in strided}
    return tuple(facts), list(found.values())


def _judge_set(report: Report, call: Call, calls: Sequence[Call], expectation: Expectation) -> list[Finding] | None:
    """What is wrong with the result for an input set; None where there is none, since the call failed."""
    expected, item = expectation.sets[call.set], report.calls.get(call.name)
    if item is None:
        return [rules.CORRECTNESS_MISSING.finding()]
    if item.error:
        return None
    problems = [rules.CORRECTNESS_OUTPUT.worded(text[:300]) for text in item.bad[:_MOST_SENTENCES]]
    if item.changed_inputs:
        problems.append(rules.CORRECTNESS_INPUT_CHANGED.finding())
    if call.name in report.facts.changed_later:
        problems.append(rules.CORRECTNESS_OUTPUT_REUSED.finding())
    result = report.results.get(call.name)
    if result is None:
        return problems or [rules.CORRECTNESS_MISSING.finding()]
    problems += compare_result(expected, result)
    if not problems:
        problems += _judge_repeats(report, call, calls, expectation)
    return problems


def _judge_repeats(report: Report, call: Call, calls: Sequence[Call], expectation: Expectation) -> list[Finding]:
    """Further calls on the same inputs: the same bits, or with atomics at least the right values."""
    problems = []
    for again in calls:
        other = again.set != call.set or again.name == call.name
        if other or again.null_kernels or again.strided or again.name not in report.calls:
            continue
        if report.calls[again.name].error:
            continue  # `_judge_end` says so
        result = report.results.get(again.name)
        if result is None:
            problems.append(rules.CORRECTNESS_MISSING.finding())
        elif not same_bits(result.arrays, report.results[call.name].arrays):
            wrong = compare_result(expectation.sets[call.set], result)
            if wrong:
                problems.append(rules.CORRECTNESS_UNSTABLE.finding(wrong[0].message))
    return problems


def _judge_strided(report: Report, call: Call, expectation: Expectation) -> list[Finding]:
    """An input that is not contiguous may be refused with an exception, but not be taken for a contiguous one."""
    if report.calls[call.name].error or call.name not in report.results:
        return []
    wrong = compare_result(expectation.sets[call.set], report.results[call.name])
    return [rules.CORRECTNESS_STRIDES.finding(wrong[0].message)] if wrong else []
