"""Questions about a task and its kernels: computed from the facts, or asked of a teacher and checked against them."""

import dataclasses
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from musadata.records import (
    SCHEMA_VERSION,
    Annotation,
    Candidate,
    ClaimOutcome,
    Question,
    QuestionTopic,
    Reject,
    Task,
    Trace,
)
from musadata.rows import content_id
from musadata.sampling.fact_questions import ASKED, describe
from musadata.sampling.rollout import Ask, request_seed
from musadata.teacher.claims.expressions import Facts
from musadata.teacher.claims.judging import judge_claim
from musadata.teacher.claims.steps import read_objects
from musadata.teacher.prompts import render_questions
from musadata.teacher.protocol import REQUEST_FAILED, Answer, CannotAnswer, Request, RequestFailed, RequestKind
from musadata.verifier.compilation.speculative_compile import predict_sources

STEP = "question"
_MOST_CHARACTERS = 8000  # of a question or an answer


def write_questions(task: Task, annotation: Annotation, count: int, teacher: str) -> list[Question]:
    """Up to `count` questions of different topics, whose answers are computed. The same rows give the same text."""
    found: list[Question] = []
    for make, topic in ASKED.items():
        random = Random(int.from_bytes(hashlib.sha256(f"{task.task_id}:{make.__name__}".encode()).digest()[:8]))
        figures = make(annotation.told[0], random) if len(found) < count else None
        if figures is not None:
            asked, answered = (text.format(**figures.values) for text in _wordings()[make.__name__].values())
            found.append(_row(task, "", topic, figures.facts, asked, answered, Answer("", teacher=teacher)))
    return found


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


def _describe_trace(trace: Trace) -> str:
    return f"{describe(*trace.tensors)}\nWork: {trace.flops} FLOPs. Least traffic: {trace.bytes} bytes."


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
        schema_version=SCHEMA_VERSION,
        task_id=task.task_id,
        candidate_id=about,
        topic=topic,
        facts=facts,
        question=asked,
        answer=answered,
        operator_family=task.operator_family,
        license=task.provenance.license,
        teacher=answer.teacher,
        split=task.split,
        claim=claim,
        **answer.provenance(),
    )


@cache
def _wordings() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = yaml.safe_load(
        Path(__file__).with_name("questions.yaml").read_text(encoding="utf-8")
    )
    return found


def reject(task: Task, reason: str, detail: str) -> Reject:
    return Reject(SCHEMA_VERSION, "questions", STEP, reason, detail[:500], task.task_id)
