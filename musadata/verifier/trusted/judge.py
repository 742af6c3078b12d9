"""From what came back of a run to findings and an error class."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from musadata.records import ErrorClass, Finding, Timing, VerifyStage
from musadata.sandbox import Outcome
from musadata.verifier.protocol.messages import Call, ErrorFacts, Json
from musadata.verifier.protocol.variants import INFINITE
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.trusted.candidate_report import Report
from musadata.verifier.trusted.compare import compare_result, same_bits
from musadata.verifier.trusted.expectation import Expectation, ExpectedSet
from musadata.verifier.trusted.runtime_legality import check_runtime_legality

_MOST_SENTENCES = 200
_SEEN_IN_EMULATION = "Seen in emulation: the device does not notice it."


@dataclass(frozen=True)
class Judgement:
    """Everything about a run that goes into a verdict."""

    stage: VerifyStage
    error_class: ErrorClass | None
    test_share: float
    findings: tuple[Finding, ...]
    operators: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    timings: tuple[Timing, ...] = ()
    own_share: float | None = None


def rejected(*findings: Finding) -> Judgement:
    """A judgement before any result was compared; the rule of the first finding says in which stage and error class."""
    rule = rules.RULES[findings[0].rule]
    return Judgement(rule.stage, rule.error_class, 0.0, findings)


def judge(outcome: Outcome, report: Report, calls: Sequence[Call], expectation: Expectation, strict: bool) -> Judgement:
    """The first thing that is wrong, in the order of the stages; no error class if nothing is."""
    operators, kernels = report.operators(), report.kernels()
    share, wrong = _judge_results(report, calls, expectation)
    crash = _judge_end(outcome, report)
    cheats = check_runtime_legality(report, calls, expectation, strict)
    missing = [text for kind, text, _ in report.kernel_faults() if kind == "unsupported"]
    if missing:
        finding = rules.EXECUTE_UNSUPPORTED.finding(missing[0])
        return Judgement(VerifyStage.EXECUTE, ErrorClass.INFRA, share, (finding,), operators, kernels)
    start = _check_start(report, expectation)
    found = [
        (VerifyStage.EXECUTE, ErrorClass.CORRECTNESS, _mismatches(report), 0.0),
        (VerifyStage.EXECUTE, ErrorClass.RUNTIME, crash, share),
        (VerifyStage.PROFILE, ErrorClass.CHEATING, [f for f in cheats if rules.RULES[f.rule].certain], share),
        (VerifyStage.COMPARE, ErrorClass.CORRECTNESS, wrong and [*wrong, *start], share),
        (VerifyStage.PROFILE, ErrorClass.CHEATING, cheats, share),
        (VerifyStage.COMPARE, ErrorClass.CORRECTNESS, start, share),
    ]
    for stage, error_class, findings, q in found:
        if findings:
            return Judgement(stage, error_class, q, tuple(findings), operators, kernels)
    finite = [item for item in expectation.sets if item.plan.variant != INFINITE]
    if finite and not any(item.discriminating for item in finite) and not _is_constant(expectation.sets):
        finding = rules.TASK_NOT_DISCRIMINATING.finding()
        return Judgement(VerifyStage.COMPARE, ErrorClass.INFRA, share, (finding,), operators, kernels)
    return Judgement(VerifyStage.PROFILE, None, 1.0, (), operators, kernels)


def add_crosscheck(judgement: Judgement, found: Judgement | None) -> Judgement:
    """The judgement of a device that found nothing wrong, with what the emulator found in the same candidate."""
    if found is None:
        return judgement
    first = replace(found.findings[0], message=f"{found.findings[0].message} {_SEEN_IN_EMULATION}")
    findings = (first, *found.findings[1:])
    return replace(judgement, stage=found.stage, error_class=found.error_class, test_share=0.0, findings=findings)


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


def _judge_end(outcome: Outcome, report: Report) -> list[Finding]:
    """Exceptions, crashes, limits and faults of kernels."""
    findings = [rules.device_rule(kind).worded(text, line) for kind, text, line in report.kernel_faults()]
    findings += [rules.DEVICE_FAULT.worded(line) for line in report.faults if not findings]
    if not findings:
        findings = _refused_launches(report)
    error = report.facts.error or next((item.error for item in report.honest_calls() if item.error), None)
    if error and not findings:
        findings.append(_exception(error))
    if outcome.status == "error":
        findings.append(rules.EXECUTE_ERROR.worded(f"{outcome.error_type}: {outcome.message}"[:400]))
    elif not outcome.ok and (outcome.status != "crash" or not findings):
        findings.append(rules.RULES[f"execute.{outcome.status}"].finding(outcome.message or "lost"))
    return list(dict.fromkeys(findings))


def _exception(error: ErrorFacts) -> Finding:
    message = " ".join(error.message.split())
    return rules.EXECUTE_EXCEPTION.worded(f"{error.error_type}: {message}"[:500], _candidate_line(error.traceback))


def _candidate_line(traceback: str) -> int:
    """The last line of the candidate's own program in a traceback."""
    lines = [line for line in traceback.splitlines() if line.startswith('File "<candidate>"')]
    try:
        return int(lines[-1].split("line ")[1].split(",")[0]) if lines else 0
    except (IndexError, ValueError):
        return 0


_CUDA_ERRORS = {
    1: "invalid argument",
    2: "out of memory",
    9: "invalid configuration",
    98: "invalid device function",
    720: "more blocks than the device holds at the same time, as a cooperative launch needs",
}


def _refused_launches(report: Report) -> list[Finding]:
    """Launches that CUDA would not accept; a candidate that asks for no error code does not notice."""
    found = []
    for item in report.honest_calls():
        for launch in item.records.refused:
            why = _CUDA_ERRORS.get(launch.error, "refused")
            sizes = [str(size)[:40] for size in (list(launch.grid), list(launch.block), launch.shared_bytes)]
            found.append(rules.DEVICE_LAUNCH.finding(launch.name[:200], why, *sizes))
    return list(dict.fromkeys(found))[:2]


def _judge_results(report: Report, calls: Sequence[Call], expectation: Expectation) -> tuple[float, list[Finding]]:
    """The share of discriminating input sets that are right in every respect, and what is wrong with the others."""
    problems: dict[int, list[Finding]] = {}
    counted = [index for index, item in enumerate(expectation.sets) if item.discriminating]
    for call in calls[: len(expectation.sets)]:
        found = _judge_set(report, call, calls, expectation)
        if found:
            problems[call.set] = found
    passed = sum(index not in problems for index in counted)
    return (passed / len(counted) if counted else 0.0), _gather(problems, expectation)


def _gather(problems: dict[int, list[Finding]], expectation: Expectation) -> list[Finding]:
    """One finding per rule, the first, with the input sets on which it holds."""
    by_rule: dict[str, list[tuple[int, Finding]]] = {}
    for index, findings in problems.items():
        for finding in findings:
            by_rule.setdefault(finding.rule, []).append((index, finding))
    gathered = []
    for found in by_rule.values():
        sets = sorted({index for index, _ in found})
        first = found[0][1]
        gathered.append(replace(first, message=f"{first.message} {_where(sets, expectation)}".rstrip()))
    return gathered


def _where(sets: list[int], expectation: Expectation) -> str:
    total = len(expectation.sets)
    if len(sets) == total:
        return ""
    failed, others = [
        [expectation.sets[i].plan for i in group] for group in (sets, sorted(set(range(total)) - set(sets)))
    ]
    for attribute, text in (("variant", "inputs are {}"), ("shape", "set of input shapes {}")):
        values = {getattr(plan, attribute) for plan in failed}
        if len(values) == 1 and not values & {getattr(plan, attribute) for plan in others}:
            value = values.pop()
            shown = value + 1 if isinstance(value, int) else value
            return (
                f"(Only with {text.format(shown)}.)" if attribute == "shape" else f"(Only where {text.format(shown)}.)"
            )
    return f"(On {len(sets)} of {total} input sets.)"


def _judge_set(report: Report, call: Call, calls: Sequence[Call], expectation: Expectation) -> list[Finding]:
    expected, item = expectation.sets[call.set], report.calls.get(call.name)
    if item is None:
        return [rules.CORRECTNESS_MISSING.finding()]
    if item.error:
        return [_exception(item.error)]
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
        if again.set != call.set or again.name == call.name or again.null_kernels or again.name not in report.calls:
            continue
        if again.strided:
            problems += _judge_strided(report, again, expectation)
            continue
        item = report.calls[again.name]
        if item.error:
            problems.append(_exception(item.error))
            continue
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
