"""From what the stages commit to what trainers read: pure functions of one task's rows. The loss is on the last answer
only."""

from collections.abc import Callable, Sequence
from typing import Any

from musadata.corpus.views.answers import chat
from musadata.corpus.views.preferences import preference_rows
from musadata.corpus.views.prompts import ground_truth, rl_rows, shape_sets_of, task_of
from musadata.corpus.views.supervised import rft_rows, sft_rows
from musadata.records import Annotation, Candidate, Task, Trajectory

# What trainers read: each dataset from all that is known of one task. Stage 3 writes them all.
VIEWS: dict[str, Callable[[Task, Annotation, Sequence[Candidate], Sequence[Trajectory]], Sequence[Any]]] = {
    "sft": sft_rows,
    "rft": rft_rows,
    "preferences": preference_rows,
    "rl": rl_rows,
}

__all__ = [
    "VIEWS",
    "chat",
    "ground_truth",
    "preference_rows",
    "rft_rows",
    "rl_rows",
    "sft_rows",
    "shape_sets_of",
    "task_of",
]
