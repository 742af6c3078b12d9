"""Questions about a task and its kernels, asked of a teacher and checked against the facts."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from musadata.records import (
    Annotation,
    Candidate,
    ClaimOutcome,
    Question,
    QuestionTopic,
    Reject,
    Task,
    TensorFact,
    Trace,
)
from musadata.rows import content_id
from musadata.sampling.rollout import Ask, request_seed
from musadata.teacher.claims.expressions import Facts
from musadata.teacher.claims.judging import judge_claim
from musadata.teacher.claims.steps import read_objects
from musadata.teacher.prompts import render_questions
from musadata.teacher.protocol import REQUEST_FAILED, Answer, CannotAnswer, Request, RequestFailed, RequestKind
from musadata.verifier.compilation.speculative_compile import predict_sources

STEP = "question"
_MOST_CHARACTERS = 8000  # of a question or an answer


def pick_kernel(candidates: Sequence[Candidate]) -> tuple[Candidate | None, str]:
    """An accepted candidate, one that was kept if there is one, and its CUDA C++; "" where that cannot be read."""
    accepted = sorted((one for one in candidates if one.accepted), key=lambda one: not one.kept)
    if not accepted:
        return None, ""
    return accepted[0], "\n".join(text for one in predict_sources(accepted[0].source) for text in one.cuda).strip()


def ask_questions(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], count: int, teacher: str, seed: int, ask: Ask
) -> list[Question | Reject]:
    """A teacher's questions: those of a known topic whose claim the facts do not contradict are kept."""
    program, cuda = pick_kernel(candidates)
    messages = render_questions(task, annotation.told, cuda, [topic.value for topic in QuestionTopic], count)
    drawn = request_seed(seed, task.task_id, 0, 0)
    try:
        request = Request(
            RequestKind.QUESTION, task, annotation.traces, messages, seed=drawn, declared=annotation.declared
        )
        answer = ask(request)
    except RequestFailed as failure:
        return [reject(task, REQUEST_FAILED, str(failure))]
    except CannotAnswer as refusal:
        return [reject(task, "no answer", str(refusal))]
    items = read_objects(answer.text)
    if not items:
        return [reject(task, "no questions in the reply", "")]
    facts = "\n\n".join(map(_describe_trace, annotation.told))
    facts += f"\n\n```cuda\n{cuda}\n```" if cuda else ""
    answer = answer if answer.teacher else dataclasses.replace(answer, teacher=teacher)
    about = program.candidate_id if program and cuda else ""
    known = Facts(annotation.told, cuda)
    return [_checked(task, about, facts, item, answer, known) for item in items[:count]]


def _describe(*facts: TensorFact) -> str:
    """A line for each tensor. What it was made from is named where all of that has a line too."""
    listed = {fact.name for fact in facts}
    return "\n".join(_line(fact, listed.issuperset(fact.operands)) for fact in facts)


def _line(fact: TensorFact, is_traced: bool) -> str:
    made = f", made by `{fact.operator}`" if fact.operands else ""
    source = f" from {', '.join(fact.operands)}" if fact.operands and is_traced else ""
    given = f" with {fact.arguments}" if fact.operands and fact.arguments else ""
    layout = f"shape {fact.shape}, strides {fact.stride} in elements"
    return f"`{fact.name}`: {fact.role}, {fact.dtype}, {layout}{made}{source}{given}."


def _describe_trace(trace: Trace) -> str:
    return f"{_describe(*trace.tensors)}\nWork: {trace.flops} FLOPs. Least traffic: {trace.bytes} bytes."


def _checked(
    task: Task, about: str, facts: str, item: dict[str, Any], answer: Answer, known: Facts
) -> Question | Reject:
    asked, answered, named, claim = (item.get(name) for name in ("question", "answer", "topic", "claim"))
    if not (isinstance(asked, str) and isinstance(answered, str) and asked.strip() and answered.strip()):
        return reject(task, "question or answer missing", "")
    topic = {one.value.lower(): one for one in QuestionTopic}.get(str(named).strip().lower())
    if topic is None:
        return reject(task, "unknown topic", str(named)[:80])
    if max(len(asked), len(answered)) > _MOST_CHARACTERS:
        return reject(task, "question or answer too long", "")
    outcome, why = judge_claim(answered, claim, known) if isinstance(claim, str) else (ClaimOutcome.UNCHECKED, "")
    if outcome is ClaimOutcome.CONTRADICTED:
        return reject(task, "contradicts the facts", f"`{claim}` is false: {why}")
    holds = str(claim) if outcome is ClaimOutcome.HOLDS else ""
    return _row(task, about, topic, facts, asked.strip(), answered.strip(), answer, holds)


def _row(
    task: Task,
    about: str,
    topic: QuestionTopic,
    facts: str,
    asked: str,
    answered: str,
    answer: Answer,
    claim: str = "",
) -> Question:
    return Question(
        question_id=content_id("question", task.task_id, about, answer.teacher, asked, answered),
        **task.columns(),
        candidate_id=about,
        topic=topic,
        facts=facts,
        question=asked,
        answer=answered,
        operator_family=task.operator_family,
        teacher=answer.teacher,
        claim=claim,
        **answer.provenance(),
    )


def reject(task: Task, reason: str, detail: str) -> Reject:
    return Reject("questions", STEP, reason, detail[:500], task.task_id)
