"""What a candidate's process said of itself. It may be hostile: whatever is not as it should be counts as missing."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from musadata.sandbox import Outcome
from musadata.verifier.protocol.tensors import BadTensors, unpack
from musadata.verifier.trusted.compare import Result
from musadata.verifier.trusted.plan import Call

_STATIC_STATE = "static_state"


@dataclass(frozen=True)
class Report:
    """What the child said, with everything that it may have left out or garbled set right."""

    facts: dict[str, Any]
    calls: dict[str, dict[str, Any]]  # by the name of the call
    results: dict[str, Result]
    faults: tuple[str, ...]  # sentences from the fault descriptor, the last words of a crashed process

    def honest_calls(self) -> list[dict[str, Any]]:
        """Those that must not fail; `plan_calls` gives the names of the two that may."""
        return [item for name, item in self.calls.items() if name not in ("null_replay", "strided")]

    def work(self) -> list[dict[str, Any]]:
        """Calls whose operators count: those that must not fail, and the one that may refuse inputs, unless it does."""
        strided = self.calls.get("strided", {"error": ""})
        return [*self.honest_calls(), *([] if "error" in strided else [strided])]

    def operators(self) -> tuple[str, ...]:
        names = [str(name).replace("::", ".") for item in self.work() for name in records_of(item, "operators")]
        return tuple(sorted(set(names)))

    def kernels(self) -> tuple[str, ...]:
        return tuple(sorted({str(name) for item in self.honest_calls() for name in records_of(item, "kernels")}))

    def kernel_faults(self) -> list[tuple[str, str]]:
        """What kernels did wrong: kinds and sentences."""
        found = []
        for item in self.honest_calls():
            for fault in records_of(item, "faults") + records_of(item, "reports"):
                if isinstance(fault, dict) and fault.get("kind") != _STATIC_STATE:
                    found.append((str(fault.get("kind", "fault"))[:40], _fault_sentence(fault)))
        return list(dict.fromkeys(found))[:4]

    def changed_state(self) -> list[str]:
        """What the program changes in itself when the same call is made again."""
        found = []
        for item in self.honest_calls():
            found += [str(name)[:100] for name in listed(item.get("counts"))]
            for fault in records_of(item, "reports"):
                if isinstance(fault, dict) and fault.get("kind") == _STATIC_STATE:
                    line = f" (line {fault['line']} of {fault.get('source')})" if fault.get("line") else ""
                    found.append(f"a static variable of its C++{line}")
        return list(dict.fromkeys(found))[:4]


def read_report(outcome: Outcome, calls: Sequence[Call]) -> Report:
    """The child's facts and outputs."""
    facts = outcome.value if outcome.ok else _left_facts(outcome)
    facts = facts if isinstance(facts, dict) else {}
    said = [item for item in listed(facts.get("calls")) if isinstance(item, dict)]
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
    return item.get("digest") == digest_of(data)


def _left_facts(outcome: Outcome) -> Any:
    try:
        return json.loads(outcome.files.get("facts", b"{}"))
    except (ValueError, RecursionError):
        return {}


def listed(value: Any) -> list[Any]:
    return value[:200] if isinstance(value, list) else []


def records_of(item: dict[str, Any], key: str) -> list[Any]:
    records = item.get("records")
    found = records.get(key) if isinstance(records, dict) else None
    return found[:4096] if isinstance(found, list) else []


def count_of(item: dict[str, Any], key: str) -> int:
    records = item.get("records")
    count = records.get(key) if isinstance(records, dict) else 0
    return count if type(count) is int else 0


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _fault_sentence(fault: dict[str, Any]) -> str:
    kernel, where = str(fault.get("kernel", "")), str(fault.get("where", ""))
    place = " ".join(part for part in (f"kernel {kernel}" if kernel else "", where) if part)
    message = str(fault.get("message", ""))
    return (f"{place}: {message}" if place else message)[:400]
