"""From a traced task to its annotation: ask for the six steps, check them, and have contradicted claims corrected."""

import dataclasses
from dataclasses import dataclass

from musadata.records import SCHEMA_VERSION, Annotation, ReasoningStep, Reject, Task, Trace, Usage
from musadata.rows import content_id
from musadata.teacher.grounding import check_grounding, parse_steps
from musadata.teacher.prompts import STEPS, render_correction, render_reasoning
from musadata.teacher.protocol import (
    REQUEST_FAILED,
    Answer,
    CannotAnswer,
    Conversation,
    Request,
    RequestFailed,
    RequestKind,
)
from musadata.training_rows import ChatMessage


@dataclass(frozen=True)
class _Analysis:
    """An answer, its steps, and why they are not grounded."""

    answer: Answer
    steps: tuple[ReasoningStep, ...]
    ungrounded: tuple[str, ...]

    @property
    def missing(self) -> list[str]:
        return [name for name in STEPS if name not in [step.step for step in self.steps]]


def annotate(task: Task, traces: tuple[Trace, ...], teacher: str, seed: int) -> Conversation[Annotation | Reject]:
    """The annotation of a task, with its ungrounded claims; a reject if the teacher does not give all six steps.

    A teacher whose steps are not grounded is told why and asked once more. The better of its two answers is kept.
    """
    request = Request(RequestKind.REASON, task, traces, render_reasoning(task, traces), seed=seed)
    try:
        analysis = _analyse((yield request), traces)
    except RequestFailed as failure:
        return _reject(task, REQUEST_FAILED, str(failure))
    except CannotAnswer as refusal:
        return _reject(task, "no answer", str(refusal))
    if analysis.missing:
        return _reject(task, "steps missing", ", ".join(analysis.missing))
    if analysis.ungrounded:
        analysis = yield from _correct(analysis, request)
    return Annotation(
        annotation_id=content_id(
            "annotation", task.task_id, traces, analysis.steps, analysis.answer.teacher or teacher
        ),
        schema_version=SCHEMA_VERSION,
        task_id=task.task_id,
        traces=traces,
        reasoning=analysis.steps,
        grounded=not analysis.ungrounded,
        ungrounded=analysis.ungrounded,
        teacher=analysis.answer.teacher or teacher,
        split=task.split,
        **analysis.answer.provenance(),
    )


def _analyse(answer: Answer, traces: tuple[Trace, ...]) -> _Analysis:
    steps = parse_steps(answer.text)
    return _Analysis(answer, steps, check_grounding(steps, traces))


def _correct(first: _Analysis, request: Request) -> Conversation[_Analysis]:
    """The analysis after its one correction, or as it was if that is no better. Both answers were paid for."""
    asked = ChatMessage("assistant", first.answer.text), *render_correction(first.ungrounded)
    try:
        answer = yield dataclasses.replace(request, messages=(*request.messages, *asked), turn=2)
    except CannotAnswer:
        return first
    second = _analyse(answer, request.traces)
    better = not second.missing and len(second.ungrounded) < len(first.ungrounded)
    chosen = second if better else first
    usage = _sum(first.answer.usage, answer.usage)
    return dataclasses.replace(chosen, answer=dataclasses.replace(chosen.answer, usage=usage))


def _sum(one: Usage, two: Usage) -> Usage:
    return Usage(*(getattr(one, field.name) + getattr(two, field.name) for field in dataclasses.fields(Usage)))


def _reject(task: Task, reason: str, detail: str) -> Reject:
    return Reject(SCHEMA_VERSION, "annotations", "reason", reason, detail, task.task_id)
