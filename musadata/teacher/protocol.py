"""The requests to a teacher, its answers, and its interface."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from musadata.records import NO_USAGE, ReasoningStep, Task, Trace, Usage
from musadata.rows import identity_json
from musadata.training_rows import ChatMessage

REQUEST_FAILED = "request failed"  # the reason of rejects whose request `--retry-failed` sends again


class RequestKind(StrEnum):
    """What a teacher can be asked for."""

    REASON = "reason"  # the six steps
    GENERATE = "generate"  # a candidate, from the task alone
    REPAIR = "repair"  # a better candidate, from the verifier's feedback
    TEST = "test"  # a unit test for kernels of the task
    QUESTION = "question"  # questions about the task and a kernel, with their answers


@dataclass(frozen=True)
class Request:
    """One question to a teacher.

    Attributes:
        kind: what is asked for.
        task: the task that it is about.
        traces: the facts about the task, one trace per proof size.
        declared: the trace at the declared size, where that is none of them.
        messages: the conversation so far, ending with the question; all that a language model sees.
        reasoning: the six steps, where they have been written already.
        sample: which of several answers to the same question, from 0.
        turn: which answer of the conversation, from 1.
        seed: drawn from the config's seed, task, kind, sample and turn; sampling is seeded with it.
    """

    kind: RequestKind
    task: Task
    traces: tuple[Trace, ...]
    messages: tuple[ChatMessage, ...]
    reasoning: tuple[ReasoningStep, ...] = ()
    sample: int = 0
    turn: int = 1
    seed: int = 0
    declared: tuple[Trace, ...] = ()

    @property
    def told(self) -> tuple[Trace, ...]:
        """As `Annotation.told`."""
        return (*self.declared, *self.traces)

    @cached_property
    def messages_json(self) -> str:
        """The messages as JSON, which the journal's key and the body that is sent both hold; encoded once."""
        both = (f'{{"content":{identity_json(one.content)},"role":{identity_json(one.role)}}}' for one in self.messages)
        return f"[{','.join(both)}]"


@dataclass(frozen=True)
class Answer:
    """A teacher's reply: text and, for a requested candidate, one fenced Python block.

    Attributes:
        text: the reply as the model would give it, without what it thought before.
        schedule: what the teacher says it did ("tiled shared-memory matmul"), if it says so.
        fault: the fault that it seeded on purpose, for the compiler teacher.
        thoughts: what a reasoning model wrote before its reply, if the server shows it.
        finish_reason: why the server ended the reply ("stop", "length").
        logprobs: natural logarithm of each token's probability, where `extra_body` asks for `logprobs`.
        usage: tokens that were paid for.
        server: address of the server that answered.
        served_model: the model and its revision, as the server reports them.
        teacher: the name of the teacher that answered, where several are asked.
        reasoning: the six steps to this answer, where the teacher knows better ones than it was given.
        expected_ms, bound_ms, costs: as the columns of `Candidate`, where the teacher knows what its kernels cost.
    """

    text: str
    schedule: str = ""
    fault: str = ""
    thoughts: str = ""
    finish_reason: str = ""
    logprobs: tuple[float, ...] = ()
    usage: Usage = NO_USAGE
    server: str = ""
    served_model: str = ""
    teacher: str = ""
    reasoning: tuple[ReasoningStep, ...] = ()
    expected_ms: float | None = None
    bound_ms: float | None = None
    costs: str = ""

    def provenance(self) -> dict[str, Any]:
        """The columns that rows made of this answer have in common."""
        return {name: getattr(self, name) for name in _PROVENANCE}


_PROVENANCE = ("thoughts", "finish_reason", "logprobs", "usage", "server", "served_model")


class Teacher(Protocol):
    """A source of reasoning and kernels.

    `name` is the provenance of its answers and part of the journal's key: it names the kind, the model and the version.
    The same request gives the same answer wherever that is in the teacher's power.
    """

    name: str

    def answer(self, request: Request) -> Answer: ...


def namer(teacher: Teacher) -> Callable[[Request], str]:
    """What gives the provenance of the answer to a request: of several teachers, the one that is asked."""
    return teacher.name_for if isinstance(teacher, SeveralTeachers) else lambda request: teacher.name


class CannotAnswer(Exception):
    """The teacher has no answer to this request; the reason is short and countable ("no lowering for aten.lstm")."""


class RequestFailed(CannotAnswer):
    """This request got no usable answer after all its tries; another day it may.

    It is kept for the run in which it failed, so that all steps agree on it, and forgotten by the next one.

    Attributes:
        reason: short and countable ("truncated at max_tokens").
        detail: the server's own words, one line.
        usage: tokens that were paid for nevertheless.
    """

    def __init__(self, reason: str, detail: str = "", usage: Usage | None = None):
        self.reason, self.detail, self.usage = reason, detail, usage or NO_USAGE
        super().__init__(f"{reason}: {detail}" if detail else reason)


@runtime_checkable
class SeveralTeachers(Teacher, Protocol):
    """A teacher that hands each request to one of several."""

    def name_for(self, request: Request) -> str: ...


Keep = Callable[[Answer | RequestFailed], None]
Done = Callable[[Answer | BaseException], None]
Result = TypeVar("Result")
# Asks by yielding a request, for which the answer is sent or a CannotAnswer is thrown; returns what came of it.
Conversation = Generator[Request, Answer, Result]


@runtime_checkable
class RemoteTeacher(Teacher, Protocol):
    """A teacher behind a server, or an engine of its own. As a context manager it is closed at the end of the block.

    `answer_and_keep` has `keep` write down the result before the next request is sent in its place, so that what a
    killed process has to ask again is never more than what it had in flight. `stop` ends all requests with an error.
    `check_server` raises MusadataError where no request can be answered.
    """

    def answer(self, request: Request) -> Answer:
        """The model's reply.

        Raises:
            RequestFailed: this request got no usable answer, though it was sent again as the config says.
            MusadataError: every request would fail: no server, a refused key, no such model, no quota.
        """
        return self.answer_and_keep(request, lambda result: None)

    def answer_and_keep(self, request: Request, keep: Keep) -> Answer: ...

    def stop(self, error: BaseException) -> None: ...

    def check_server(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@runtime_checkable
class SubmittingTeacher(RemoteTeacher, Protocol):
    """A teacher that takes requests without holding the thread that asks.

    `submit` calls `done` with the answer or error, in a thread of the teacher's. `submits` says whether it does: of
    several teachers not all may.
    """

    @property
    def submits(self) -> bool: ...

    def submit(self, request: Request, keep: Keep, done: Done) -> None: ...
