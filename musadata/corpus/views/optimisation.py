"""Optimisation: a slow right program with its measured time, and a faster one. Only where both were measured."""

import json
import math
from collections.abc import Sequence
from typing import Any

from musadata.corpus.views.answers import list_conversations
from musadata.corpus.views.changes import list_changes
from musadata.corpus.views.measured import describe_times, is_faster, timing_of
from musadata.corpus.views.supervised import choose_first_answers, make_sft
from musadata.records import Annotation, Candidate, Task, Trajectory
from musadata.rows import plain
from musadata.teacher.prompts import render_optimisation
from musadata.training_rows import SftRow

Costs = list[dict[str, Any]]  # of kernels: `Candidate.costs`

FAMILY = "optimisation"
LEAST_GAIN = 1.1  # the paper calls a kernel faster from here on
_NAMES = frozenset({"kernel", "schedule"})  # of what is counted of a kernel


def optimisation_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[SftRow]:
    """The fastest accepted answer of a task and the nearest slower one, if they differ beyond the noise and by
    `LEAST_GAIN`.

    A task without measured times has no row.
    """
    timed = [
        (timing.median_ms, answer)
        for answer in choose_first_answers(list_conversations(candidates, trajectories))
        if (timing := timing_of(answer.candidate))
    ]
    if len(timed) < 2:
        return []
    quick, fast = min(timed, key=lambda pair: pair[0])
    slower = [
        (long, slow)
        for long, slow in timed
        if long >= LEAST_GAIN * quick
        and is_faster(fast.candidate, slow.candidate)
        and _is_explained(slow.candidate, fast.candidate)
    ]
    if not slower or not fast.is_target:
        return []
    # Few edits, so that what was measured is their effect; of as few those that gained most.
    long, slow = min(slower, key=lambda pair: (len(_edits(pair[1].candidate, fast.candidate)) or math.inf, -pair[0]))
    measured = describe_times(slow.candidate, annotation.told[0])
    question = render_optimisation(
        task, annotation.told, slow.candidate.source, measured, slow.candidate.device or "the device"
    )
    evidence = {
        "slow_id": slow.candidate.candidate_id,
        "gain": round(long / quick, 3),
        "decisions": len(list_changes(slow.candidate.source, fast.candidate.source)),
        "slow": plain(slow.candidate.timings),
        "fast": plain(fast.candidate.timings),
    }
    answer = _explained(slow.candidate, fast.candidate, long, quick) or fast.text
    return [make_sft(task, FAMILY, question, answer, fast.candidate.teacher, fast.candidate, json.dumps(evidence))]


def _edits(slow: Candidate, fast: Candidate) -> list[tuple[Costs, Costs]]:
    """What is counted of the kernels that differ in that, before and after, by their names; other names together."""
    before, after = (json.loads(one.costs or "[]") for one in (slow, fast))
    olds, news = [one for one in before if one not in after], [one for one in after if one not in before]
    shared = {one["kernel"] for one in olds} & {one["kernel"] for one in news}
    found: dict[str, tuple[Costs, Costs]] = {}
    for place, one in [*((0, old) for old in olds), *((1, new) for new in news)]:
        found.setdefault(one["kernel"] if one["kernel"] in shared else "", ([], []))[place].append(one)
    return list(found.values())


def _is_explained(slow: Candidate, fast: Candidate) -> bool:
    """Whether the counts give a reason for the gain: some differ, and the faster program is also expected to be
    faster. Programs without counts, such as a model's, are not asked for one."""
    if not (slow.costs and fast.costs):
        return True
    is_expected = slow.expected_ms is None or fast.expected_ms is None or fast.expected_ms < slow.expected_ms
    return is_expected and any(_different(*edit) for edit in _edits(slow, fast))


def _explained(slow: Candidate, fast: Candidate, long: float, quick: float) -> str:
    """For each edit what limited the kernels and what limits them now; what was measured; and the program. Empty where
    nothing is counted."""
    if not (edits := _edits(slow, fast)):
        return ""
    lines = [f"- Before: {_told(olds, news)}. Now: {_told(news, olds)}." for olds, news in edits]
    counted = "What changes, with counts at the declared size:"
    measured = f"Measured: {long:.4g} ms before, {quick:.4g} ms now, {long / quick:.3g} times as fast."
    return "\n".join([counted, "", *lines, "", measured, "", f"```python\n{fast.source}```\n"])


def _different(olds: Costs, news: Costs) -> set[str]:
    """What is counted otherwise before and after, names aside; all of it where several kernels take one's place."""
    if len(olds) != 1 or len(news) != 1:
        return {what for one in (*olds, *news) for what in one} - _NAMES
    (old,), (new,) = olds, news
    return {what for what in {*old, *new} if old.get(what) != new.get(what)} - _NAMES


def _told(kernels: Costs, others: Costs) -> str:
    """Kernels with their schedules and what is counted of them, as far as it differs."""
    texts, differ = [], _different(kernels, others)
    for one in kernels:
        counts = [f"{what} {value}" for what, value in one.items() if what in differ - {"limit"}]
        limit = [f"limited by {one['limit']}"] if "limit" in one and "limit" in differ else []
        told = ", ".join([*limit, *counts])
        texts.append(f"`{one['kernel']}`, {one['schedule']}" + f" ({told})" * bool(told))
    return "; ".join(texts) or "no kernel of its own"
