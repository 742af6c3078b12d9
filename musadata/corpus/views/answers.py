"""The answers of one task's conversations, each with what was said before it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from musadata.corpus.views.measured import timing_of
from musadata.records import Candidate, Message, Trajectory
from musadata.sampling.structure import describe_structure, is_near_identical
from musadata.training_rows import ChatMessage

_LAUNCH_MS = 0.005  # below which no bound means anything: a launch alone takes that
_NEARLY = 0.99  # both are rounded
_AS_FAST = 0.95  # of eager PyTorch's speed: on a device, kernels that move the same bytes differ by that
_MOST_MEASURED = 1.4  # times the bound: a fused program may beat PyTorch by far, and still move data as no expert would
MOST_OF_BOUND = 1.5  # times as long as the task's bound: an answer that is expected to take longer is no target
LONGEST_ANSWER = 100_000  # characters, about the 32 K tokens of the paper's answers
Prompt = tuple[ChatMessage, ...]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Sampled:
    """An answer as it was sampled. In `prompt`, earlier answers are messages of their own."""

    candidate: Candidate
    prompt: Prompt
    text: str

    @property
    def message(self) -> Prompt:
        return (ChatMessage("assistant", self.text),)

    @property
    def is_first(self) -> bool:
        return self.candidate.turn == 1

    @property
    def is_right(self) -> bool:
        """A seeded fault that was accepted changes nothing here, but is no example."""
        return self.candidate.accepted and not self.candidate.fault

    @property
    def is_target(self) -> bool:
        """Whether it may be learnt: it is right, and neither a device nor its own cost table condemns it. What is
        expected to take less than the bound has a kernel without a model. Where a device measured it to be faster than
        eager PyTorch, or clearly slower, that counts instead, and how near it came to the bound."""
        one, timing = self.candidate, timing_of(self.candidate)
        if timing is not None and one.speedup is not None and not _AS_FAST <= one.speedup <= 1.0:
            is_near = one.bound_ms is None or timing.median_ms <= _MOST_MEASURED * max(one.bound_ms, _LAUNCH_MS)
            return self.is_right and one.speedup > 1.0 and is_near
        if one.expected_ms is None or one.bound_ms is None:
            return self.is_right
        is_near = _NEARLY * one.bound_ms <= one.expected_ms <= MOST_OF_BOUND * max(one.bound_ms, _LAUNCH_MS)
        return self.is_right and is_near


def list_conversations(
    candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[tuple[Sampled, ...]]:
    """The answers of each conversation, turn by turn. One with an answer that is too long to learn from is left out."""
    found = {candidate.candidate_id: candidate for candidate in candidates}
    conversations = [_read(trajectory, found) for trajectory in trajectories]
    return [answers for answers in conversations if all(len(one.text) <= LONGEST_ANSWER for one in answers)]


def _read(trajectory: Trajectory, found: dict[str, Candidate]) -> tuple[Sampled, ...]:
    if len(trajectory.turns) != len(trajectory.candidates):
        raise ValueError(f"{trajectory.trajectory_id} has {len(trajectory.turns)} answers and other candidates")
    prompt = chat([message for message in trajectory.messages if message.role == "system"])
    answers = []
    for turn, candidate_id in zip(trajectory.turns, trajectory.candidates, strict=True):
        prompt = (*prompt, ChatMessage("user", turn.question))
        answer = Sampled(found[candidate_id], prompt, turn.answer)
        answers.append(answer)
        prompt = (*prompt, *answer.message)
    return tuple(answers)


def chat(messages: Sequence[Message]) -> Prompt:
    """Messages as trainers read them."""
    return tuple(ChatMessage(message.role, message.content) for message in messages)


def different(items: Iterable[Item], source: Callable[[Item], str]) -> list[Item]:
    """Those whose program is not nearly the same as that of an earlier one."""
    kept: list[Item] = []
    for item in items:
        if not any(same_program(source(item), source(other)) for other in kept):
            kept.append(item)
    return kept


def same_program(one: str, other: str) -> bool:
    """Whether two programs teach the same thing: equal but for names, comments and layout, or nearly so."""
    return one == other or is_near_identical(describe_structure(one), describe_structure(other))
