"""Columns that several datasets share, each described once. The texts reach Arrow, JSON Schema, Croissant and docs."""

from typing import Annotated, Any, get_type_hints

from musadata.row_enums import OperatorFamily

SchemaVersion = Annotated[int, "Version of the dataset's schema."]
TaskId = Annotated[str, "The task, as in `tasks`."]
CandidateId = Annotated[str, "The candidate, as in `candidates`."]
Split = Annotated[str, "`train`, `validation` or `test`: that of the task. Like tasks are in the same split."]
Family = Annotated[OperatorFamily, "The kind of work that dominates the task."]
License = Annotated[str, "SPDX expression: the licence of the code that the task was made from."]
Teacher = Annotated[str, "Who wrote it: `compiler`, `human`, `musadata` or the name of a model."]
Thoughts = Annotated[str, "What a reasoning model wrote before its reply, where its server shows it."]
FinishReason = Annotated[str, "Why the server ended the reply: `stop`, `length`; empty for a teacher without a server."]
Logprobs = Annotated[tuple[float, ...], "Natural logarithms of the reply's tokens, where they were asked for."]
Server = Annotated[str, "Address of the server; empty for a teacher without one."]
ServedModel = Annotated[str, "The model and its revision, as the server reports them."]
Backend = Annotated[str, "Where kernels ran: `emulated`, `cuda`, `musa`."]
Policy = Annotated[str, "The policy that made the verdict of the facts: see docs/policies.md."]


# Tokens of columns with messages, see `musadata.tokens`.
PromptTokens = Annotated[int, "Tokens of `prompt` by Tekken (`tekken_240911`), without the marks of a chat template."]
CompletionTokens = Annotated[int, "Tokens of `completion`, as `prompt_tokens`."]
ConversationTokens = Annotated[int, "Tokens of `conversation`, as `prompt_tokens`."]


def describe_columns(kind: type) -> dict[str, str]:
    """Column -> what it holds, for the rows of a dataset or a part of them; empty where nothing is said."""
    hints: dict[str, Any] = get_type_hints(kind, include_extras=True)
    return {name: str(getattr(hint, "__metadata__", ("",))[0]) for name, hint in hints.items()}
