"""From what came back of a run to findings and an error class: the reports are not to be trusted."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from musadata.records import ErrorClass, Finding, Timing, VerifyStage
from musadata.sandbox import Outcome
from musadata.verifier.compare import Result, compare_result, same_bits
from musadata.verifier.operators import is_allowed
from musadata.verifier.plan import Call
from musadata.verifier.reference import Expectation
from musadata.verifier.tensors import Array, BadTensors, unpack
from musadata.verifier.variants import INFINITE


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


@dataclass(frozen=True)
class Report:
    """What the child said, with everything that it may have left out or garbled set right."""

    facts: dict[str, Any]
    calls: dict[str, dict[str, Any]]  # by the name of the call
    results: dict[str, Result]
    faults: tuple[str, ...]  # sentences from the fault descriptor, the last words of a crashed process


def read_report(outcome: Outcome, calls: Sequence[Call]) -> Report:
    """The child's facts and outputs. It may be hostile: whatever is not as it should be counts as missing."""
    facts = outcome.value if outcome.ok else _left_facts(outcome)
    facts = facts if isinstance(facts, dict) else {}
    said = [item for item in _list(facts.get("calls")) if isinstance(item, dict)]
    by_name = {call.name: item for call, item in zip(calls, said, strict=False)}
    results = {}
    for call in calls:
        data = outcome.files.get(call.name)
        if data is None or call.name not in by_name or not _is_as_written(data, by_name[call.name]):
            continue
        try:
            arrays = unpack(data)
            ordered = tuple(arrays[str(number)] for number in range(len(arrays)))
            results[call.name] = Result(by_name[call.name].get("structure"), ordered)
        except (BadTensors, KeyError):
            continue
    faults = outcome.files.get("faults", b"").decode("utf-8", "replace").strip().splitlines()
    return Report(facts, by_name, results, tuple(line[:400] for line in faults[:4]))


def _is_as_written(data: bytes, item: dict[str, Any]) -> bool:
    """Whether nobody has changed a result after its call."""
    return item.get("digest") == _digest(data)


def _list(value: Any) -> list[Any]:
    return value[:200] if isinstance(value, list) else []


def _left_facts(outcome: Outcome) -> Any:
    try:
        return json.loads(outcome.files.get("facts", b"{}"))
    except (ValueError, RecursionError):
        return {}


def judge(outcome: Outcome, report: Report, calls: Sequence[Call], expectation: Expectation, strict: bool) -> Judgement:
    """The first thing that is wrong, in the order of the stages; no error class if nothing is."""
    operators, kernels = _operators(report), _kernels(report)
    share, wrong = _judge_results(report, calls, expectation)
    crash = _judge_end(outcome, report)
    cheats = _judge_conduct(report, calls, expectation, strict, operators, kernels)
    found = [
        (VerifyStage.EXECUTE, ErrorClass.CORRECTNESS, _sentences(report, "interface", "interface.state"), 0.0),
        (VerifyStage.EXECUTE, ErrorClass.RUNTIME, crash, share),
        (VerifyStage.PROFILE, ErrorClass.CHEATING, [f for f in cheats if f.rule in _SURE_CHEATS], share),
        (VerifyStage.COMPARE, ErrorClass.CORRECTNESS, wrong, share),
        (VerifyStage.PROFILE, ErrorClass.CHEATING, cheats, share),
    ]
    for stage, error_class, findings, q in found:
        if findings:
            return Judgement(stage, error_class, q, tuple(findings), operators, kernels)
    if not any(item.discriminating for item in expectation.sets if item.plan.variant != INFINITE):
        finding = Finding("task.not_discriminating", "Zeros or a constant would pass every test of this task.")
        return Judgement(VerifyStage.COMPARE, ErrorClass.INFRA, share, (finding,), operators, kernels)
    return Judgement(VerifyStage.PROFILE, None, 1.0, (), operators, kernels)


# Cheats that are named as such even where the results are wrong too.
_SURE_CHEATS = ("runtime.operator", "runtime.tampered", "runtime.no_launch", "runtime.host")
# A forward may read a few sizes or flags; more than these is work that kernels should do.
_HOST_ELEMENTS = 16
# Filling or copying far more parts of tensors than it launches kernels is PyTorch doing the work.
_MOST_PARTS = 16
_PARTS_PER_LAUNCH = 4


def _sentences(report: Report, key: str, rule: str) -> list[Finding]:
    return [Finding(rule, str(sentence)[:300]) for sentence in _list(report.facts.get(key))]


def _judge_end(outcome: Outcome, report: Report) -> list[Finding]:
    """Exceptions, crashes, limits and faults of kernels."""
    findings = [Finding(f"device.{kind}", text) for kind, text in _faults(report)]
    findings += [Finding("device.fault", line) for line in report.faults if not findings]
    if not findings:
        findings = _refused_launches(report)
    error = report.facts.get("error") or next((c["error"] for c in _honest_calls(report) if "error" in c), None)
    if isinstance(error, dict) and not findings:
        findings.append(_exception(error))
    if not outcome.ok:
        messages = {
            "timeout": "It takes too long: a loop that does not end, or far too much work.",
            "memory": "It takes more memory than it may.",
            "output": "It prints or writes more than it may.",
        }
        text = messages.get(outcome.status, f"Its process was {outcome.message or 'lost'}.")
        if outcome.status == "error":
            text = f"{outcome.error_type}: {outcome.message}"[:400]
        if outcome.status != "crash" or not findings:
            findings.append(Finding(f"execute.{outcome.status}", text))
    return list(dict.fromkeys(findings))


def _exception(error: dict[str, Any]) -> Finding:
    kind, message = str(error.get("error_type", "")), " ".join(str(error.get("message", "")).split())
    return Finding("execute.exception", f"{kind}: {message}"[:500], _candidate_line(str(error.get("traceback", ""))))


def _candidate_line(traceback: str) -> int:
    """The last line of the candidate's own program in a traceback."""
    lines = [line for line in traceback.splitlines() if line.startswith('File "<candidate>"')]
    try:
        return int(lines[-1].split("line ")[1].split(",")[0]) if lines else 0
    except (IndexError, ValueError):
        return 0


def _work(report: Report) -> list[dict[str, Any]]:
    """Calls whose operators count: those that must not fail, and the one that may refuse its inputs, if it does not."""
    strided = report.calls.get("strided", {"error": ""})
    return [*_honest_calls(report), *([] if "error" in strided else [strided])]


def _honest_calls(report: Report) -> list[dict[str, Any]]:
    """Those that must not fail; `plan_calls` gives the names of the two that may."""
    return [item for name, item in report.calls.items() if name not in ("ghost", "strided")]


def _records(item: dict[str, Any], key: str) -> list[Any]:
    records = item.get("records")
    found = records.get(key) if isinstance(records, dict) else None
    return found[:4096] if isinstance(found, list) else []


def _faults(report: Report) -> list[tuple[str, str]]:
    found = []
    for item in _honest_calls(report):
        for fault in _records(item, "faults") + _records(item, "reports"):
            if isinstance(fault, dict) and fault.get("kind") != _STATIC_STATE:
                found.append((str(fault.get("kind", "fault"))[:40], _fault_sentence(fault)))
    return list(dict.fromkeys(found))[:4]


_STATIC_STATE = "static_state"


def _counts(report: Report) -> list[str]:
    """What the program changes in itself when the same call is made again."""
    found = []
    for item in _honest_calls(report):
        found += [str(name)[:100] for name in _list(item.get("counts"))]
        for fault in _records(item, "reports"):
            if isinstance(fault, dict) and fault.get("kind") == _STATIC_STATE:
                line = f" (line {fault['line']} of {fault.get('source')})" if fault.get("line") else ""
                found.append(f"a static variable of its C++{line}")
    return list(dict.fromkeys(found))[:4]


_CUDA_ERRORS = {
    "1": "invalid argument",
    "2": "out of memory",
    "9": "invalid configuration",
    "98": "invalid device function",
}


def _refused_launches(report: Report) -> list[Finding]:
    """Launches that CUDA would not accept; a candidate that asks for no error code does not notice."""
    found = []
    for item in _honest_calls(report):
        for launch in _records(item, "refused"):
            if isinstance(launch, dict):
                why = _CUDA_ERRORS.get(str(launch.get("error")), "refused")
                text = f"kernel {launch.get('name')} cannot be launched ({why}): grid {launch.get('grid')}, "
                text += f"block {launch.get('block')}, {launch.get('shared_bytes')} bytes of dynamic shared memory."
                found.append(Finding("device.launch", text[:400]))
    return list(dict.fromkeys(found))[:2]


def _fault_sentence(fault: dict[str, Any]) -> str:
    kernel, where = str(fault.get("kernel", "")), str(fault.get("where", ""))
    place = " ".join(part for part in (f"kernel {kernel}" if kernel else "", where) if part)
    message = str(fault.get("message", ""))
    return (f"{place}: {message}" if place else message)[:400]


def _count(item: dict[str, Any], key: str) -> int:
    records = item.get("records")
    count = records.get(key) if isinstance(records, dict) else 0
    return count if type(count) is int else 0


def _operators(report: Report) -> tuple[str, ...]:
    names = [str(name).replace("::", ".") for item in _work(report) for name in _records(item, "operators")]
    return tuple(sorted(set(names)))


def _kernels(report: Report) -> tuple[str, ...]:
    return tuple(sorted({str(name) for item in _honest_calls(report) for name in _records(item, "kernels")}))


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
        return [Finding("correctness.missing", "There is no result for some inputs.")]
    if "error" in item:
        return [_exception(item["error"] if isinstance(item["error"], dict) else {})]
    problems = [Finding("correctness.output", str(text)[:300]) for text in _list(item.get("bad"))]
    if item.get("changed_inputs"):
        problems.append(Finding("correctness.input_changed", "The forward changes its inputs in place."))
    if call.name in _list(report.facts.get("changed_later")):
        problems.append(
            Finding("correctness.output_reused", "A later call changes an output that was returned before.")
        )
    result = report.results.get(call.name)
    if result is None:
        return problems or [Finding("correctness.missing", "There is no result for some inputs.")]
    problems += compare_result(expected, result)
    if not problems:
        problems += _judge_repeats(report, call, calls, expectation)
    return problems


def _judge_repeats(report: Report, call: Call, calls: Sequence[Call], expectation: Expectation) -> list[Finding]:
    """Further calls on the same inputs: the same bits, or with atomics at least the right values."""
    problems = []
    for again in calls:
        if again.set != call.set or again.name == call.name or again.ghost or again.name not in report.calls:
            continue
        if again.strided:
            problems += _judge_strided(report, again, expectation)
            continue
        item = report.calls[again.name]
        if "error" in item:
            problems.append(_exception(item["error"] if isinstance(item["error"], dict) else {}))
            continue
        result = report.results.get(again.name)
        if result is None:
            problems.append(Finding("correctness.missing", "There is no result for some inputs."))
        elif not same_bits(result.arrays, report.results[call.name].arrays):
            wrong = compare_result(expectation.sets[call.set], result)
            if wrong:
                text = "The same inputs give another result when called again or when threads run in another order: "
                problems.append(Finding("correctness.unstable", text + wrong[0].message))
    return problems


def _judge_strided(report: Report, call: Call, expectation: Expectation) -> list[Finding]:
    """An input that is not contiguous may be refused with an exception, but not be taken for a contiguous one."""
    if "error" in report.calls[call.name] or call.name not in report.results:
        return []
    wrong = compare_result(expectation.sets[call.set], report.results[call.name])
    text = "The result is wrong when an input is not contiguous (call .contiguous(), or check and raise): "
    return [Finding("correctness.strides", text + wrong[0].message)] if wrong else []


def _judge_conduct(
    report: Report,
    calls: Sequence[Call],
    expectation: Expectation,
    strict: bool,
    operators: Sequence[str],
    kernels: Sequence[str],
) -> list[Finding]:
    """Legality at run time: operators, launches, the ghost replay, and what became of torch's own functions."""
    findings = []
    for name in _list(report.facts.get("tampered")):
        findings.append(Finding("runtime.tampered", f"The candidate replaced {name}."))
    if report.facts.get("threads"):
        findings.append(Finding("runtime.threads", "The candidate starts threads of its own."))
    for name in _counts(report):
        text = f"The forward changes {name} whenever it is called again: a result must depend on the inputs alone."
        findings.append(Finding("runtime.state", text))
    if strict:
        for name in operators:
            if not is_allowed(name):
                text = f"The forward computes with PyTorch's {name} instead of a kernel of its own."
                findings.append(Finding("runtime.operator", text, 0, name))
        findings += _written_by_parts(report)
        moved = max((_count(item, "to_host") for item in _work(report)), default=0)
        if moved > _HOST_ELEMENTS:
            text = f"The forward moves {moved} values to the host; the work must be done by kernels."
            findings.append(Finding("runtime.host", text))
    ran = [item for item in _honest_calls(report) if "error" not in item]
    if ran and not kernels:
        findings.append(Finding("runtime.no_launch", "The forward launches no kernel of its own."))
    if _keeps_results(report, calls):
        text = "Called again with the same inputs the forward launches no kernel: it keeps its result."
        findings.append(Finding("runtime.state", text))
    findings += _judge_ghost(report, calls, expectation, strict)
    return findings


def _written_by_parts(report: Report) -> list[Finding]:
    for item in _honest_calls(report):
        parts, launches = _count(item, "parts"), _count(item, "launches")
        if parts > max(_MOST_PARTS, _PARTS_PER_LAUNCH * launches):
            text = f"The forward fills or copies {parts} parts of tensors with PyTorch, launching {launches} kernels: "
            return [Finding("runtime.operator", text + "the work must be done by kernels.", 0, "aten.copy_")]
    return []


def _keeps_results(report: Report, calls: Sequence[Call]) -> bool:
    """Whether a call launches nothing that launched kernels when its inputs were new."""
    launched = {call.name: _records(report.calls[call.name], "kernels") for call in calls if call.name in report.calls}
    new = {call.set: launched.get(call.name) for call in calls[::-1]}  # of each set the first call
    again = [
        call for call in calls if call.settled and call.name in launched and "error" not in report.calls[call.name]
    ]
    return any(new[call.set] and not launched[call.name] for call in again)


def _judge_ghost(report: Report, calls: Sequence[Call], expectation: Expectation, strict: bool) -> list[Finding]:
    """What the results are when its kernels do nothing."""
    ghost = next((call for call in calls if call.ghost), None)
    honest = next((call for call in calls if ghost and call.set == ghost.set), None)
    if ghost is None or honest is None or honest.name not in report.results:
        return []
    # Constant outputs say nothing, and copies that PyTorch may make are the same either way.
    arrays = report.results[honest.name].arrays
    telling = [index for index, array in enumerate(arrays) if _is_telling(array)]
    replayed = report.results[ghost.name].arrays if ghost.name in report.results else ()
    same = {index for index, array in enumerate(replayed[: len(arrays)]) if array.raw == arrays[index].raw}
    if telling and same.issuperset(telling):
        text = "The result is the same when its kernels do nothing: they are not what computes it."
        return [Finding("runtime.decoy", text)]
    there = _written_by_operators(
        report.calls.get(ghost.name, {}), expectation.sets[ghost.set].inputs, expectation.state
    )
    if strict and telling and all(index in same or _digest(arrays[index].raw) in there for index in telling):
        text = (
            "PyTorch's copies have put the result together when its kernels have done nothing yet: these only copy it."
        )
        return [Finding("runtime.decoy", text)]
    return []


def _is_telling(array: Array) -> bool:
    return bool(array.values.size) and (array.values.size == 1 or bool(np.ptp(array.values.real) != 0))


def _written_by_operators(item: dict[str, Any], *given: bytes) -> set[str]:
    """Digests of what PyTorch's operators wrote, but for what was there before."""
    before = {_digest(array.raw) for data in given for array in unpack(data).values()}
    return {str(digest) for digest in _list(item.get("written"))} - before


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
