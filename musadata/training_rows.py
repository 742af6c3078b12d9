"""The rows that trainers read: `sft`, `rft`, `preferences` and `rl`.

As in `musadata.records`, each is a frozen dataclass from which its Arrow schema and its JSON Schema follow.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from musadata.columns import (
    CandidateId,
    CompletionTokens,
    ConversationTokens,
    Family,
    License,
    PromptTokens,
    SchemaVersion,
    Split,
    TaskId,
    Teacher,
)
from musadata.records import SCHEMA_VERSION, ErrorClass


@dataclass(frozen=True)
class ChatMessage:
    """A message as trainers read it."""

    role: Annotated[str, "`system`, `user` or `assistant`."]
    content: Annotated[str, "The text."]


Asked = Annotated[
    tuple[ChatMessage, ...],
    "What the model is given; failed answers of a conversation are messages of their own.",
]
Learnt = Annotated[tuple[ChatMessage, ...], "The answer to learn: the loss is on it alone."]
Conversation = Annotated[
    tuple[ChatMessage, ...],
    "Prompt and completion in one, for trainers that learn from every answer: failed answers are quoted in the "
    "user's message.",
]


@dataclass(frozen=True)
class SftRow:
    """Supervised fine-tuning: the loss is on `completion` only."""

    sft_id: Annotated[str, "Hash of the row's content."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    task_id: TaskId
    family: Annotated[
        str,
        "What is taught: `generation`, `reasoned`, `repair`, `review`, `feedback`, `question`, "
        "`unit_test`, `optimisation`, `profiling` or `translation`.",
    ]
    prompt: Asked
    completion: Learnt
    conversation: Conversation
    operator_family: Family
    license: License
    teacher: Teacher
    split: Split
    candidate_id: Annotated[str, "The program that is learnt, or asked about; empty for none."] = ""
    evidence: Annotated[
        str,
        "JSON: what the completion was made from, for families whose completions musadata words itself.",
    ] = ""
    prompt_tokens: PromptTokens = 0
    completion_tokens: CompletionTokens = 0
    conversation_tokens: ConversationTokens = 0


@dataclass(frozen=True)
class RftRow:
    """Rejection-sampled fine-tuning: one accepted, structurally different answer per row."""

    rft_id: Annotated[str, "Hash of the row's content."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    task_id: TaskId
    candidate_id: CandidateId
    prompt: Asked
    completion: Learnt
    conversation: Conversation
    reward: Annotated[float, "Reward of the answer."]
    structure: Annotated[str, "What kind of kernel it is."]
    operator_family: Family
    license: License
    teacher: Teacher
    split: Split
    reward_speed: Annotated[float, "What of `reward` a measured speedup gave."] = 0.0
    speedup: Annotated[float | None, "Eager's median time by the candidate's; null where nothing was timed."] = None
    prompt_tokens: PromptTokens = 0
    completion_tokens: CompletionTokens = 0
    conversation_tokens: ConversationTokens = 0


class PreferenceKind(StrEnum):
    """Why one answer is preferred to the other."""

    RIGHT = "right over wrong"
    HONEST = "honest over cheating"
    FASTER = "faster over slower"


@dataclass(frozen=True)
class PreferenceRow:
    """A pair for DPO: two answers to the same prompt, of which `chosen` was accepted.

    Their programs differ in many lines, so that the one is preferred to the other, and not one line to another.
    """

    preference_id: Annotated[str, "Hash of the row's content."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    task_id: TaskId
    prompt: Annotated[tuple[ChatMessage, ...], "What both answers are given."]
    chosen: Annotated[tuple[ChatMessage, ...], "The accepted answer."]
    rejected: Annotated[tuple[ChatMessage, ...], "The other answer."]
    chosen_id: Annotated[str, "Candidate id of the chosen answer."]
    rejected_id: Annotated[str, "Candidate id of the rejected answer."]
    chosen_reward: Annotated[float, "Reward of the chosen answer."]
    rejected_reward: Annotated[float, "Reward of the rejected answer."]
    rejected_error: Annotated[ErrorClass | None, "Why the rejected answer failed; null if it was accepted, but slower."]
    operator_family: Family
    license: License
    teacher: Teacher
    split: Split
    chosen_reward_speed: Annotated[float, "What of `chosen_reward` a measured speedup gave."] = 0.0
    kind: Annotated[PreferenceKind, "Why one is preferred to the other."] = PreferenceKind.RIGHT
    decisions: Annotated[int, "In how many places the programs differ."] = 0
    distance: Annotated[float, "Share of the lines of both programs that differ, comments aside."] = 0.0
    prompt_tokens: PromptTokens = 0
    chosen_tokens: Annotated[int, "Tokens of `chosen`, as `prompt_tokens`."] = 0
    rejected_tokens: Annotated[int, "Tokens of `rejected`, as `prompt_tokens`."] = 0


@dataclass(frozen=True)
class RewardModel:
    """How verl scores an answer: `ground_truth` is the task as JSON, for `musadata.corpus.views.task_of`."""

    style: Annotated[str, "How verl scores: `rule`."]
    ground_truth: Annotated[str, "The task as JSON, for `musadata.corpus.views.task_of`."]


@dataclass(frozen=True)
class ExtraInfo:
    """What verl hands to the reward function beside the answer. `index` is a hash of the task id."""

    index: Annotated[int, "A hash of the task id."]
    split: Split
    task_id: TaskId
    operator_family: Family
    level: Annotated[int, "KernelBench's scale, 1 to 3."]


@dataclass(frozen=True)
class RlRow:
    """A prompt for reinforcement learning, in verl's columns; TRL's GRPO reads `prompt` and passes the rest on."""

    rl_id: Annotated[str, "Hash of the row's content."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    task_id: TaskId
    data_source: Annotated[str, "Which reward function is meant: see docs/training.md."]
    prompt: Annotated[tuple[ChatMessage, ...], "What the model is given."]
    ability: Annotated[str, "Kind of work, in verl's words."]
    reward_model: Annotated[RewardModel, "What the reward function needs."]
    extra_info: Annotated[ExtraInfo, "What verl hands to the reward function beside the answer."]
    license: License
    split: Split
    samples: Annotated[int, "First answers of the teachers, without seeded faults: the measured difficulty."] = 0
    passed: Annotated[int, "How many of `samples` were accepted."] = 0
    avg_at_k: Annotated[float | None, "`passed` / `samples`; null without samples."] = None
    pass_at_k: Annotated[tuple[float, ...], "pass@1, pass@2, … pass@samples by the unbiased estimator."] = ()
    prompt_tokens: PromptTokens = 0


class RetryState(StrEnum):
    """Where a task is whose answers all failed."""

    WAITING = "waiting"
    SOLVED = "solved"
    GIVEN_UP = "given up"  # after `sampling.retry_tries` rounds, or because the teacher has no answer
    PUSHED_OUT = "pushed out"  # by later tasks: `sampling.retry_size` is reached


@dataclass(frozen=True)
class RetryRow:
    """A task whose answers all failed, as a repair task: Buffered Dynamic Retry."""

    retry_id: Annotated[str, "Hash of the row's content."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    task_id: TaskId
    candidate_id: Annotated[str, "The failed answer that got furthest."]
    state: Annotated[RetryState, "Where the task is."]
    tries: Annotated[int, "Rounds in which it came back."]
    prompt: Annotated[tuple[ChatMessage, ...], "The task, the failed answer and what the verifier said of it."]
    error_class: Annotated[ErrorClass, "Why the answer failed."]
    feedback: Annotated[str, "What the verifier said of it."]
    operator_family: Family
    license: License
    split: Split
