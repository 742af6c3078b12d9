"""What a candidate's process said of itself. It may be hostile: whatever is not as it should be counts as missing."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from musadata.sandbox import Outcome
from musadata.verifier.backends.device_records import Fault
from musadata.verifier.protocol.message_encoding import read_claims
from musadata.verifier.protocol.messages import Call, CallFacts, CandidateFacts, Json
from musadata.verifier.protocol.tensors import Array, BadTensors, unpack

_STATIC_STATE = "static_state"


@dataclass(frozen=True)
class Result:
    """What a candidate returned for one input set: untrusted, but well-formed."""

    structure: Json
    arrays: tuple[Array, ...]


@dataclass(frozen=True)
class Report:
    """A candidate's facts and results, by the names of its calls; `faults` are sentences that a crash left behind, and
    `crash_line` is the line of the candidate that led there, 0 if it is not known."""

    facts: CandidateFacts
    calls: dict[str, CallFacts]
    results: dict[str, Result]
    faults: tuple[str, ...]
    crash_line: int = 0

    def must_succeed(self, call: str) -> bool:
        """Whether a call may not fail; `plan_calls` gives the names of those that may."""
        return not call.startswith(("null_replay", "strided", "derived"))

    def honest_calls(self) -> list[CallFacts]:
        """Those that must not fail."""
        return [item for name, item in self.calls.items() if self.must_succeed(name)]

    def work(self) -> list[CallFacts]:
        """Calls whose operators count: those that must not fail, and the one that may refuse inputs, unless it does."""
        strided = self.calls.get("strided")
        return [*self.honest_calls(), *([strided] if strided and strided.error is None else [])]

    def operators(self) -> tuple[str, ...]:
        names = {name.replace("::", ".") for item in self.work() for name in item.records.operators}
        return tuple(sorted(names))

    def kernels(self) -> tuple[str, ...]:
        return tuple(sorted({name for item in self.honest_calls() for name in item.records.kernels}))

    def kernel_faults(self) -> list[tuple[str, str, int, str]]:
        """What kernels did wrong: kinds, sentences, lines, which are 0 if they are not known, and the first call."""
        found: dict[tuple[str, str, int], str] = {}
        for name, item in self.calls.items():
            for fault in item.records.faults + item.records.reports if self.must_succeed(name) else ():
                if fault.kind != _STATIC_STATE:
                    found.setdefault((fault.kind[:40], _fault_sentence(fault), fault.line), name)
        return [(*fault, name) for fault, name in found.items()][:4]

    def changed_state(self) -> list[str]:
        """What the program changes in itself when the same call is made again."""
        found = []
        for item in self.honest_calls():
            found += [name[:200] for name in item.changed_state]
            for fault in item.records.reports:
                if fault.kind == _STATIC_STATE:
                    line = f" (line {fault.line} of {fault.source or 'the program'})" if fault.line else ""
                    found.append(f"the static variable {fault.message[:100]} of its C++{line}")
        return list(dict.fromkeys(found))[:4]


def read_facts(outcome: Outcome) -> CandidateFacts:
    """What the process returned, or left in a file before it ended."""
    if outcome.ok:
        return read_claims(CandidateFacts, outcome.value)
    try:
        return read_claims(CandidateFacts, json.loads(outcome.files.get("facts", b"{}")))
    except (ValueError, RecursionError):
        return CandidateFacts()


def read_report(facts: CandidateFacts, files: dict[str, bytes], calls: Sequence[Call]) -> Report:
    """A candidate's facts, and its results from the files that its calls left."""
    by_name = {call.name: item for call, item in zip(calls, facts.calls, strict=False)}
    results: dict[str, Result] = {}
    for name, item in by_name.items():
        data = files.get(name, b"")
        if item.digest == digest_of(data):  # else it was changed after its call
            result = read_result(item.structure, data)
            if result is not None:
                results[name] = result
    faults, line = read_crash(files)
    return Report(facts, by_name, results, faults, line)


def read_crash(files: Mapping[str, bytes]) -> tuple[tuple[str, ...], int]:
    """The sentences that a crash left behind, and the line of the candidate that led there, 0 if it is not known."""
    text, _, stack = files.get("faults", b"").decode("utf-8", "replace").partition("Fatal Python error")
    lines = re.findall(r'File "<candidate>", line (\d{1,6}) ', stack)
    return tuple(line[:400] for line in text.strip().splitlines()[:4]), int(lines[0]) if lines else 0


def read_result(structure: Json, data: bytes) -> Result | None:
    """A result whose tensors are packed by number; None if they are not."""
    try:
        arrays = unpack(data)
        return Result(structure, tuple(arrays[str(number)] for number in range(len(arrays))))
    except (BadTensors, KeyError):
        return None


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _fault_sentence(fault: Fault) -> str:
    place = " ".join(part for part in (f"kernel {fault.kernel}" if fault.kernel else "", fault.where) if part)
    return (f"{place}: {fault.message}" if place else fault.message)[:400]
