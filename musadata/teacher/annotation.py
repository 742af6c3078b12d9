"""From a traced task to its annotation: ask for the six steps and their claims, and have contradicted ones corrected.

A teacher that gives prose alone may be asked in a second request what its sentences claim.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from musadata.asking_config import GroundingConfig
from musadata.records import Annotation, Claim, ReasoningStep, Reject, Task, Trace, Usage
from musadata.rows import content_id
from musadata.teacher.claims.expressions import Facts
from musadata.teacher.claims.judging import find_reasons, judge_claims, share_checked
from musadata.teacher.claims.steps import parse_claims, parse_steps, read_objects, split_sentences
from musadata.teacher.prompts import STEPS, render_claims, render_correction, render_reasoning
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

_CHECKED_AS_BEFORE = GroundingConfig()
_ANALYSES = 2  # turns 1 and 2; turns 3 and 4 say what their sentences claim


@dataclass(frozen=True)
class _Analysis:
    """An answer, its steps and claims, why they are not grounded, and the share of sentences that facts decide."""

    answer: Answer
    steps: tuple[ReasoningStep, ...]
    claims: tuple[Claim, ...]
    ungrounded: tuple[str, ...]
    checked: float

    @property
    def missing(self) -> list[str]:
        return [name for name in STEPS if name not in [step.step for step in self.steps]]


def annotate(
    task: Task,
    traces: tuple[Trace, ...],
    teacher: str,
    seed: int,
    checking: GroundingConfig = _CHECKED_AS_BEFORE,
    declared: tuple[Trace, ...] = (),
) -> Conversation[Annotation | Reject]:
    """The annotation of a task, with its ungrounded claims; a reject if the teacher does not give all six steps.

    A teacher whose claims are contradicted is told why and asked once more. The better of its two answers is kept.
    """
    question = render_reasoning(task, (*declared, *traces), ask_claims=True)
    request = Request(RequestKind.REASON, task, traces, question, seed=seed, declared=declared)
    try:
        analysis = yield from _analyse((yield request), request, checking)
    except RequestFailed as failure:
        return _reject(task, REQUEST_FAILED, str(failure))
    except CannotAnswer as refusal:
        return _reject(task, "no answer", str(refusal))
    if analysis.missing:
        return _reject(task, "steps missing", ", ".join(analysis.missing))
    if analysis.ungrounded:
        analysis = yield from _correct(analysis, request, checking)
    return Annotation(
        annotation_id=content_id(
            "annotation", task.task_id, request.told, analysis.steps, analysis.answer.teacher or teacher
        ),
        **task.columns(),
        traces=traces,
        reasoning=analysis.steps,
        grounded=not analysis.ungrounded,
        ungrounded=analysis.ungrounded,
        teacher=analysis.answer.teacher or teacher,
        checked=analysis.checked,
        claims=analysis.claims,
        schedule=analysis.answer.schedule,
        declared=declared,
        **analysis.answer.provenance(),
    )


def _analyse(answer: Answer, request: Request, checking: GroundingConfig) -> Conversation[_Analysis]:
    steps, claims = parse_steps(answer.text), parse_claims(answer.text)
    if checking.transcribe and not claims and len(steps) == len(STEPS):
        sentences = [sentence for step in steps for sentence in split_sentences(step.text)]
        messages = *request.messages, ChatMessage("assistant", answer.text), *render_claims(sentences)
        try:
            reply = yield dataclasses.replace(request, messages=messages, turn=request.turn + _ANALYSES)
        except CannotAnswer:
            pass  # its sentences stay unchecked
        else:
            claims = _transcribed(sentences, reply.text)
            answer = dataclasses.replace(answer, usage=_sum(answer.usage, reply.usage))
    judged = judge_claims(claims, steps, Facts(request.told))
    share = share_checked(judged, steps)
    return _Analysis(answer, steps, judged, find_reasons(judged, share, checking.least_checked), share)


def _transcribed(sentences: Sequence[str], reply: str) -> list[tuple[str, str]]:
    """Sentences with the expressions of a reply, a list of `{"sentence": 1, "claim": "…"}`."""
    pairs = ((item.get("sentence"), item.get("claim")) for item in read_objects(reply))
    return [
        (sentences[number - 1], claim)
        for number, claim in pairs
        if isinstance(number, int) and isinstance(claim, str) and 0 < number <= len(sentences)
    ]


def _correct(first: _Analysis, request: Request, checking: GroundingConfig) -> Conversation[_Analysis]:
    """The analysis after its one correction, or as it was if that is no better. All answers were paid for."""
    asked = ChatMessage("assistant", first.answer.text), *render_correction(first.ungrounded)
    again = dataclasses.replace(request, messages=(*request.messages, *asked), turn=2)
    try:
        answer = yield again
    except CannotAnswer:
        return first
    second = yield from _analyse(answer, again, checking)
    better = not second.missing and len(second.ungrounded) < len(first.ungrounded)
    chosen = second if better else first
    usage = _sum(first.answer.usage, second.answer.usage)
    return dataclasses.replace(chosen, answer=dataclasses.replace(chosen.answer, usage=usage))


def _sum(one: Usage, two: Usage) -> Usage:
    return Usage(*(getattr(one, field.name) + getattr(two, field.name) for field in dataclasses.fields(Usage)))


def _reject(task: Task, reason: str, detail: str) -> Reject:
    return Reject("annotations", "reason", reason, detail, task.task_id)
