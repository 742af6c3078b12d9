"""One conversation with a teacher: ask, judge, and ask again with the verifier's feedback."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import takewhile

from musadata.records import Annotation, ReasoningStep, Task, Verdict
from musadata.teacher.prompts import PromptForm, form_of, render_generation, render_repair
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
    messages, reasoning = _first_question(task, annotation)
    return _go_on(task, annotation, sample, range(1, turns + 1), seed, messages, reasoning, [], ask, judge)


def _first_question(task: Task, annotation: Annotation) -> tuple[tuple[ChatMessage, ...], tuple[ReasoningStep, ...]]:
    """The question in the task's form, and the analysis that it shows; no contradicted one, which would mislead."""
    form = form_of(task.task_id)
    reasoning = annotation.reasoning if annotation.grounded and form is PromptForm.PLAN else ()
    return render_generation(task, () if form is PromptForm.PROBLEM else annotation.told, reasoning), reasoning


def retry_rollout(
    task: Task, annotation: Annotation, failed: Attempt, sample: int, turns: int, seed: int, ask: Ask, judge: Judge
) -> list[Attempt]:
    """A conversation that begins with an answer that failed in another one, and goes on with its repair.

    The failed answer counts as the first turn, whatever was said before it, and at least one more is asked for.

    Raises:
        CannotAnswer, CutShort, NotKnownYet: see `run_rollout`.
    """
    question = tuple(takewhile(lambda message: message.role != "assistant", failed.request.messages))
    first = replace(failed, request=replace(failed.request, messages=question))
    more = range(2, max(2, turns) + 1)
    shown = failed.request.reasoning
    return _go_on(task, annotation, sample, more, seed, repair_prompt(first), shown, [first], ask, judge)


def repair_prompt(failed: Attempt) -> tuple[ChatMessage, ...]:
    """The request to repair an answer, from what the verifier said of it."""
    answer = ChatMessage("assistant", failed.answer.text)
    return (*failed.request.messages, answer, *render_repair(failed.verdict.feedback))


def _go_on(
    task: Task,
    annotation: Annotation,
    sample: int,
    turns: Iterable[int],
    seed: int,
    messages: tuple[ChatMessage, ...],
    reasoning: tuple[ReasoningStep, ...],
    attempts: list[Attempt],
    ask: Ask,
    judge: Judge,
) -> list[Attempt]:
    """`attempts` with those of these turns."""
    for turn in turns:
        request = Request(
            kind=RequestKind.GENERATE if turn == 1 else RequestKind.REPAIR,
            task=task,
            traces=annotation.traces,
            messages=messages,
            reasoning=reasoning,
            sample=sample,
            turn=turn,
            seed=request_seed(seed, task.task_id, sample, turn),
            declared=annotation.declared,
        )
        try:
            answer = ask(request)
        except RequestFailed as failure:
            if attempts:
                raise CutShort(attempts, failure) from failure
            raise
        if answer.reasoning and turn == 1:  # as if it had been asked with the analysis that leads to it
            question = render_generation(task, annotation.told, answer.reasoning)
            request = replace(request, messages=question, reasoning=answer.reasoning)
        verdict = judge(task, annotation, answer)
        attempts.append(Attempt(request, answer, verdict))
        if verdict.accepted or verdict.is_undecided:  # nothing was said that could be repaired
            break
        messages = repair_prompt(attempts[-1])
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
