"""Optimisation: a slow right program with its measured time, and a faster one. Only where both were measured."""

import json
from collections.abc import Sequence

from musadata.corpus.views.answers import list_conversations
from musadata.corpus.views.changes import list_changes
from musadata.corpus.views.measured import describe_times, is_faster, timing_of
from musadata.corpus.views.supervised import choose_first_answers, make_sft
from musadata.records import Annotation, Candidate, Task, Trajectory
from musadata.rows import plain
from musadata.teacher.prompts import render_optimisation
from musadata.training_rows import SftRow

FAMILY = "optimisation"
LEAST_GAIN = 1.1  # the paper calls a kernel faster from here on


def optimisation_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[SftRow]:
    """The slowest and the fastest accepted answer of a task, if they differ beyond the noise and by `LEAST_GAIN`.

    A task without measured times has no row.
    """
    timed = [
        (timing.median_ms, answer)
        for answer in choose_first_answers(list_conversations(candidates, trajectories))
        if (timing := timing_of(answer.candidate))
    ]
    if len(timed) < 2:
        return []
    (quick, fast), (long, slow) = (pick(timed, key=lambda pair: pair[0]) for pick in (min, max))
    if long < LEAST_GAIN * quick or not is_faster(fast.candidate, slow.candidate) or not fast.is_target:
        return []
    measured = describe_times(slow.candidate)
    question = render_optimisation(task, annotation.told, slow.candidate.source, measured)
    evidence = {
        "slow_id": slow.candidate.candidate_id,
        "gain": round(long / quick, 3),
        "decisions": len(list_changes(slow.candidate.source, fast.candidate.source)),
        "slow": plain(slow.candidate.timings),
        "fast": plain(fast.candidate.timings),
    }
    return [make_sft(task, FAMILY, question, fast.text, fast.candidate.teacher, fast.candidate, json.dumps(evidence))]
