"""Executing a draft once, in the sandbox, to decide whether it is a task."""

import re
from hashlib import sha256
from typing import Any

from musadata.config import TasksConfig
from musadata.errors import is_own_failure, short_trace
from musadata.records import Draft, InputSpec, OperatorFamily, Reject, SourceKind, Task
from musadata.rows import content_id, restore
from musadata.sandbox import Caller, Limits, Outcome
from musadata.sources.licenses import is_allowed
from musadata.tasks.decontaminate import contamination
from musadata.tasks.family import level, operator_family
from musadata.tasks.half_types import half_type, recast
from musadata.tasks.text import text_signature

PRELOAD = (
    "torch",
    "musadata.tasks.probe_preload",
    "musadata.tasks.sizing.measure_preload",
)  # what a sandbox for probing should import once
EXAMINE = "musadata.tasks.sizing.measure:examine"
TEST_FILE = re.compile(r"(^|/)(tests?|testing|test_utils)/|(^|/)test_[^/]*\.py$|_test\.py$|(^|/)conftest\.py$")


def probe(draft: Draft, config: TasksConfig, sandbox: Caller, seed: int) -> Task | Reject:
    """The draft as a task, or the first filter that it does not pass.

    The reference must be short enough for a prompt, run, repeat itself bit for bit, be finite, and depend on every
    input and parameter; its output must not be trivially constant, all zero or an unchanged input; it must match no
    benchmark.
    """
    try:
        return _probe(draft, config, sandbox, seed)
    except Exception as error:
        if not is_own_failure(error):
            raise
        return _reject(draft, "internal_error", short_trace(error))


def _probe(draft: Draft, config: TasksConfig, sandbox: Caller, seed: int) -> Task | Reject:
    if not is_allowed(draft.provenance.license, config.licenses):
        return _reject(draft, "license", draft.provenance.license or "none is known")
    if draft.source_kind is SourceKind.MINED and TEST_FILE.search(draft.provenance.path):
        return _reject(draft, "test_fixture", "a module of a test")
    lines = draft.reference.count("\n")
    if lines > config.max_lines:
        return _reject(draft, "too_long", f"{lines} lines")
    limits = Limits(seconds=config.seconds, memory_mb=config.memory_mb)
    is_mined = draft.source_kind is SourceKind.MINED
    kind = half_type(draft.reference, seed, config.half_share) if is_mined else ""
    for text in dict.fromkeys([recast(draft.reference, kind) if kind else draft.reference, draft.reference]):
        outcome = sandbox.call(
            EXAMINE, text, _seed(seed, draft), config.max_elements, draft.name if is_mined else "", limits=limits
        )
        if outcome.ok and "reason" not in outcome.value:
            break
    if not outcome.ok:
        return _failed(draft, outcome)
    if "reason" in outcome.value:
        return _reject(draft, outcome.value["reason"], outcome.value["detail"])
    if is_mined and all(name.split(".")[1] in _JOINING for name in outcome.value["operators"]):
        return _reject(draft, "only_joins", "it sets its inputs side by side")
    match = contamination(
        draft.reference, outcome.value["graph_fingerprint"], outcome.value["results"], config.decontaminate
    )
    if match:
        return _reject(draft, "benchmark", match)
    if draft.source_kind in _GENERATED and not outcome.value["measure"]:  # another graph can be drawn instead
        return _reject(draft, "no_measure_size", outcome.value["note"])
    return _task(draft, outcome.value)


def _task(draft: Draft, facts: dict[str, Any]) -> Task:
    operators = tuple(facts["operators"])
    fingerprint = facts["graph_fingerprint"]
    return Task(
        task_id=_task_id(draft, facts["reference"]),
        source_kind=draft.source_kind,
        name=draft.name,
        reference=facts["reference"],
        operators=operators,
        operator_family=operator_family(
            operators, facts["broadcasts"], [OperatorFamily(name) for name in facts["recognized"]]
        ),
        level=level(operators),
        inputs=tuple(restore(InputSpec, spec) for spec in facts["inputs"]),
        provenance=draft.provenance,
        split="train",  # until all tasks are known, see `musadata.tasks.splits`
        text_signature=text_signature(draft.reference),
        graph_fingerprint=fingerprint,
        measure=tuple(restore(InputSpec, spec) for spec in facts["measure"]),
        measure_note=facts["note"],
    )


def _task_id(draft: Draft, reference: str) -> str:
    """A paired task has an id of its own: its reference may also have been mined alone."""
    kind = [draft.source_kind] if draft.source_kind is SourceKind.PAIRED else []
    return content_id("task", reference, draft.provenance, *kind)


def _seed(seed: int, draft: Draft) -> int:
    return int(sha256(f"probe/{seed}/{draft.reference}".encode()).hexdigest()[:8], 16) >> 1


_JOINING = frozenset(
    {"cat", "stack", "unsqueeze", "squeeze", "expand", "view", "_unsafe_view", "alias", "_to_copy", "slice"}
    | {"select", "unbind", "split", "split_with_sizes"}
)
_GENERATED = frozenset({SourceKind.NNSMITH, SourceKind.COMPOSED, SourceKind.OPERATOR})
_FAILURES = {"timeout": "timeout", "memory": "memory", "crash": "crash", "output": "too_much_output"}


def _failed(draft: Draft, outcome: Outcome) -> Reject:
    """The reject for a call that exceeded a limit or crashed the process."""
    reason = _FAILURES.get(outcome.status, "does_not_run")
    return _reject(draft, reason, outcome.describe_error())


def _reject(draft: Draft, reason: str, detail: str) -> Reject:
    origin = f"{draft.provenance.origin}:{draft.provenance.path}"
    if draft.provenance.lines:
        origin += f":{draft.provenance.lines}"
    return Reject("tasks", "probe", reason, detail, origin)
