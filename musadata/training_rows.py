"""The rows that trainers read: `sft`, `rft`, `preferences` and `rl`.

As in `musadata.records`, each is a frozen dataclass from which its Arrow schema and its JSON Schema follow.
"""

from dataclasses import dataclass
from enum import StrEnum

from musadata.records import ErrorClass, OperatorFamily


@dataclass(frozen=True)
class ChatMessage:
    """A message as trainers read it."""

    role: str
    content: str


@dataclass(frozen=True)
class SftRow:
    """Supervised fine-tuning: the loss is on `completion` only.

    `conversation` is prompt and completion in one, for trainers that learn from every answer of an assistant: there the
    failed answers of a prompt are quoted in the user's message. `evidence` is JSON: what the completion was made from,
    for the families whose completions musadata words itself.
    """

    sft_id: str
    schema_version: int
    task_id: str
    family: str  # see the functions of `musadata.corpus.views`
    prompt: tuple[ChatMessage, ...]
    completion: tuple[ChatMessage, ...]
    conversation: tuple[ChatMessage, ...]
    operator_family: OperatorFamily
    license: str
    teacher: str
    split: str
    candidate_id: str = ""  # the program that is learnt, or asked about; "" for none
    evidence: str = ""


@dataclass(frozen=True)
class RftRow:
    """Rejection-sampled fine-tuning: one accepted, structurally different answer per row."""

    rft_id: str
    schema_version: int
    task_id: str
    candidate_id: str
    prompt: tuple[ChatMessage, ...]
    completion: tuple[ChatMessage, ...]
    conversation: tuple[ChatMessage, ...]  # as in `SftRow`
    reward: float
    structure: str
    operator_family: OperatorFamily
    license: str
    teacher: str
    split: str
    reward_speed: float = 0.0  # what of `reward` a measured speedup gave
    speedup: float | None = None


class PreferenceKind(StrEnum):
    """Why one answer is preferred to the other."""

    RIGHT = "right over wrong"
    HONEST = "honest over cheating"
    FASTER = "faster over slower"


@dataclass(frozen=True)
class PreferenceRow:
    """A pair for DPO: two answers to the same prompt, of which `chosen` was accepted.

    `decisions` says in how many places their programs differ: 1 for a single fault that is mended, or a single change.
    """

    preference_id: str
    schema_version: int
    task_id: str
    prompt: tuple[ChatMessage, ...]
    chosen: tuple[ChatMessage, ...]
    rejected: tuple[ChatMessage, ...]
    chosen_id: str  # candidate ids
    rejected_id: str
    chosen_reward: float
    rejected_reward: float
    rejected_error: ErrorClass | None  # None if it was accepted, but slower
    operator_family: OperatorFamily
    license: str
    teacher: str
    split: str
    chosen_reward_speed: float = 0.0  # as in `RftRow`; a failed answer has none
    kind: PreferenceKind = PreferenceKind.RIGHT
    decisions: int = 0


@dataclass(frozen=True)
class RewardModel:
    """How verl scores an answer: `ground_truth` is the task as JSON, for `musadata.corpus.views.task_of`."""

    style: str
    ground_truth: str


@dataclass(frozen=True)
class ExtraInfo:
    """What verl hands to the reward function beside the answer. `index` is a hash of the task id."""

    index: int
    split: str
    task_id: str
    operator_family: OperatorFamily
    level: int


@dataclass(frozen=True)
class RlRow:
    """A prompt for reinforcement learning, in verl's columns; TRL's GRPO reads `prompt` and passes the rest on."""

    rl_id: str
    schema_version: int
    task_id: str
    data_source: str
    prompt: tuple[ChatMessage, ...]
    ability: str
    reward_model: RewardModel
    extra_info: ExtraInfo
    license: str
    split: str
    samples: int = 0  # first answers of the teachers, without seeded faults: the measured difficulty
    passed: int = 0  # of them accepted
    avg_at_k: float | None = None  # passed / samples; None without samples
    pass_at_k: tuple[float, ...] = ()  # pass@1, pass@2, … pass@samples, see `musadata.sampling.pass_rate`


class RetryState(StrEnum):
    """Where a task is whose answers all failed."""

    WAITING = "waiting"
    SOLVED = "solved"
    GIVEN_UP = "given up"  # after `sampling.retry_tries` rounds, or because the teacher has no answer
    PUSHED_OUT = "pushed out"  # by later tasks: `sampling.retry_size` is reached


@dataclass(frozen=True)
class RetryRow:
    """A task whose answers all failed, as a repair task: Buffered Dynamic Retry."""

    retry_id: str
    schema_version: int
    task_id: str
    candidate_id: str  # the failed answer that got furthest
    state: RetryState
    tries: int  # rounds in which it came back
    prompt: tuple[ChatMessage, ...]  # the task, the failed answer and what the verifier said of it
    error_class: ErrorClass
    feedback: str
    operator_family: OperatorFamily
    license: str
    split: str
