"""Tracing a task: the parent's side of what runs in the sandbox."""

import hashlib
from dataclasses import dataclass

from musadata.config import TracingConfig
from musadata.records import Reject, Task, Trace
from musadata.rows import plain, restore
from musadata.sandbox import Limits, Outcome, Sandbox

# What a sandbox should import once before it forks, so that no child pays for it.
PRELOAD = ("torch", "musadata.tracing.execution")


@dataclass(frozen=True)
class Traced:
    """The traces of a task on its proof sizes, and at its declared size, as in `Annotation`."""

    traces: tuple[Trace, ...]
    declared: tuple[Trace, ...] = ()

    @property
    def told(self) -> tuple[Trace, ...]:
        return (*self.declared, *self.traces)


def trace_task(task: Task, config: TracingConfig, sandbox: Sandbox, seed: int) -> Traced | Reject:
    """Facts about a task on `config.shape_sets` sets of input shapes, its own first, and at its declared size.

    Some set has a size that is not a power of two. A reject says why there are not so many sets: the reference fails,
    or nothing about its shapes can vary.
    """
    outcome = sandbox.call(
        "musadata.tracing.execution:trace_reference",
        task.reference,
        plain(task.inputs),
        _seed(seed, task.task_id),
        config.shape_sets,
        plain(task.measure),
        limits=Limits(seconds=config.seconds),
    )
    if outcome.status != "ok":
        return _reject(task, f"trace_{outcome.status}", _describe(outcome))
    if "reason" in outcome.value:
        return _reject(task, outcome.value["reason"], outcome.value["detail"])
    return restore(Traced, outcome.value)


def _describe(outcome: Outcome) -> str:
    """What happened, without the addresses and paths that differ between runs."""
    message = " ".join(outcome.message.split())
    shown = "" if "0x" in message or "/" in message else message
    return f"{outcome.error_type}: {shown}".strip(": ")


def _reject(task: Task, reason: str, detail: str) -> Reject:
    return Reject("annotations", "trace", reason, detail[:500], task.task_id)


def _seed(seed: int, task_id: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {task_id} trace".encode()).digest()[:7])
