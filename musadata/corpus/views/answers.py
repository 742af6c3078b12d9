"""The answers of one task's conversations, each with what was said before it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from musadata.records import Message, Trajectory
from musadata.training_rows import ChatMessage

Prompt = tuple[ChatMessage, ...]
Row = TypeVar("Row")


@dataclass(frozen=True)
class Turn:
    """One answer in a conversation and all that was said before it."""

    candidate_id: str
    prompt: Prompt
    answer: Prompt


def list_turns(trajectories: Sequence[Trajectory]) -> Iterator[Turn]:
    for trajectory in trajectories:
        answers = [index for index, message in enumerate(trajectory.messages) if message.role == "assistant"]
        for candidate_id, index in zip_longest(trajectory.candidates, answers):
            if candidate_id is None or index is None:
                raise ValueError(f"{trajectory.trajectory_id} has {len(answers)} answers and other candidates")
            messages = chat(trajectory.messages[: index + 1])
            yield Turn(candidate_id, messages[:-1], messages[-1:])


def chat(messages: Sequence[Message]) -> Prompt:
    """Messages as trainers read them."""
    return tuple(ChatMessage(message.role, message.content) for message in messages)


def unique(rows: Iterable[Row], key: Callable[[Row], str]) -> list[Row]:
    """Without rows whose content was there before: two samples may give the same answer."""
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(key(row), row)
    return list(first.values())
