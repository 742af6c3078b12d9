"""The requests to a teacher, its answers, and its interface."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from musadata.records import ChatMessage, ReasoningStep, Task, Trace


class RequestKind(StrEnum):
    """What a teacher can be asked for."""

    REASON = "reason"  # the six steps
    GENERATE = "generate"  # a candidate, from the task alone
    REPAIR = "repair"  # a better candidate, from the verifier's feedback


@dataclass(frozen=True)
class Request:
    """One question to a teacher.

    Attributes:
        kind: what is asked for.
        task: the task that it is about.
        traces: the facts about the task, one trace per set of input shapes.
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


@dataclass(frozen=True)
class Answer:
    """A teacher's reply: text and, for a requested candidate, one fenced Python block.

    Attributes:
        text: the reply as the model would give it.
        schedule: what the teacher says it did ("tiled shared-memory matmul"), if it says so.
        fault: the fault that it seeded on purpose, for the compiler teacher.
    """

    text: str
    schedule: str = ""
    fault: str = ""


class Teacher(Protocol):
    """A source of reasoning and kernels.

    `name` is the provenance of its answers and part of the journal's key: it names the kind, the model and the version.
    The same request gives the same answer wherever that is in the teacher's power.
    """

    @property
    def name(self) -> str: ...

    def answer(self, request: Request) -> Answer: ...


class CannotAnswer(Exception):
    """The teacher has no answer to this request; the reason is short and countable ("no lowering for aten.lstm")."""
