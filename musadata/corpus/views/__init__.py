"""From what the stages commit to what trainers read: pure functions of one task's rows. The loss is on the last answer
only."""

from collections.abc import Callable, Sequence
from typing import Any

from musadata.corpus.views.answers import chat
from musadata.corpus.views.diagnoses import diagnosis_rows
from musadata.corpus.views.knowledge import question_row, unit_test_row
from musadata.corpus.views.optimisation import optimisation_rows
from musadata.corpus.views.preferences import preference_rows
from musadata.corpus.views.prompts import ground_truth, rl_rows, shape_sets_of, task_of
from musadata.corpus.views.reviews import review_rows
from musadata.corpus.views.supervised import answer_rows, rft_rows
from musadata.records import Annotation, Candidate, Task, Trajectory
from musadata.training_rows import SftRow

View = Callable[[Task, Annotation, Sequence[Candidate], Sequence[Trajectory]], Sequence[Any]]
# The families of `sft` that follow from a task's conversations. Later steps of stage 3 write further ones.
SFT_FAMILIES: tuple[View, ...] = (answer_rows, review_rows, diagnosis_rows, optimisation_rows)


def sft_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[SftRow]:
    """All that one task teaches by its conversations, family by family."""
    return [row for family in SFT_FAMILIES for row in family(task, annotation, candidates, trajectories)]


# What trainers read: each dataset from all that is known of one task. Stage 3 writes them all.
VIEWS: dict[str, View] = {
    "sft": sft_rows,
    "rft": rft_rows,
    "preferences": preference_rows,
    "rl": rl_rows,
}

__all__ = [
    "SFT_FAMILIES",
    "VIEWS",
    "chat",
    "ground_truth",
    "preference_rows",
    "question_row",
    "rft_rows",
    "rl_rows",
    "sft_rows",
    "shape_sets_of",
    "task_of",
    "unit_test_row",
]
