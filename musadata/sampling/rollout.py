"""One conversation with a teacher: ask, judge, and ask again with the verifier's feedback."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from musadata.records import Annotation, ErrorClass, Task, Verdict
from musadata.teacher.prompts import render_generation, render_repair
from musadata.teacher.protocol import Answer, Request, RequestFailed, RequestKind
from musadata.training_rows import ChatMessage

Ask = Callable[[Request], Answer]
Judge = Callable[[Task, Annotation, Answer], Verdict]


class NotKnownYet(Exception):
    """Raised by an `ask` or a `judge` that only remembers: the conversation goes on in a later step."""


class CutShort(RequestFailed):
    """A request failed after the first turn: `attempts` are what was answered and judged before."""

    def __init__(self, attempts: "list[Attempt]", failure: RequestFailed):
        super().__init__(failure.reason, failure.detail, failure.usage)
        self.attempts = attempts


@dataclass(frozen=True)
class Attempt:
    """One turn of a conversation: what was asked, answered and found."""

    request: Request
    answer: Answer
    verdict: Verdict


def run_rollout(
    task: Task, annotation: Annotation, sample: int, turns: int, seed: int, ask: Ask, judge: Judge
) -> list[Attempt]:
    """The conversation of one sample, from the first question to the first accepted answer or the last turn.

    It is a pure function of what `ask` and `judge` return, so a step that was interrupted, or that may only do one of
    the two, runs it again from the journal and continues where that ends.

    Raises:
        CannotAnswer: the teacher has no answer to the first question.
        CutShort: the request of a later turn failed.
        NotKnownYet: passed on from `ask` and `judge`.
    """
    reasoning = annotation.reasoning if annotation.grounded else ()  # a contradicted analysis misleads
    messages = render_generation(task, annotation.traces, reasoning)
    attempts: list[Attempt] = []
    for turn in range(1, turns + 1):
        request = Request(
            kind=RequestKind.GENERATE if turn == 1 else RequestKind.REPAIR,
            task=task,
            traces=annotation.traces,
            messages=messages,
            reasoning=reasoning,
            sample=sample,
            turn=turn,
            seed=request_seed(seed, task.task_id, sample, turn),
        )
        try:
            answer = ask(request)
        except RequestFailed as failure:
            if attempts:
                raise CutShort(attempts, failure) from failure
            raise
        verdict = judge(task, annotation, answer)
        attempts.append(Attempt(request, answer, verdict))
        if verdict.accepted or verdict.error_class is ErrorClass.INFRA:  # nothing was said that could be repaired
            break
        messages = (*messages, ChatMessage("assistant", answer.text), *render_repair(verdict.feedback))
    return attempts


def judge_program(
    task: Task, annotation: Annotation, sample: int, program: str, seed: int, judge: Judge
) -> list[Attempt]:
    """The conversation of a program that was there before anybody asked: one answer, judged, and no repair.

    Raises:
        NotKnownYet: passed on from `judge`.
    """
    answer = Answer(f"```python\n{program}```\n")
    return run_rollout(task, annotation, sample, 1, seed, lambda request: answer, judge)


def request_seed(seed: int, task_id: str, sample: int, turn: int) -> int:
    """A seed of its own for every request, whatever the order in which requests are made. 0 to 2**63 - 1."""
    digest = hashlib.sha256(f"{seed}:{task_id}:{sample}:{turn}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1
