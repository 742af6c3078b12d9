"""Pairs for preference training: two answers to the very same prompt."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from musadata.corpus.views.answers import Prompt, Sampled, list_conversations
from musadata.corpus.views.changes import distance, list_changes
from musadata.corpus.views.measured import is_faster, timing_of
from musadata.records import Annotation, Candidate, Task, Trajectory
from musadata.rows import content_id
from musadata.sampling.structure import describe_structure
from musadata.teacher.prompts import quote_answers
from musadata.tokens import count_columns
from musadata.training_rows import PreferenceKind, PreferenceRow

LEAST_DISTANCE = 0.05  # of lines: another schedule, and not the same program with a fault in it


def preference_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[PreferenceRow]:
    """Accepted over failed answers, and faster over slower ones where both were measured, to the very same prompt.

    A program is chosen at most once for each kind of pair, against the one that differs from it the most: where only a
    few lines differ, training on the pair makes the chosen answer less likely, too. A chosen side that lacks a
    technique of a wrong one, or needs more kernels, would teach the worse style: such a pair is left out. Failures of
    the infrastructure are nobody's fault, so they are not rejected answers.
    """
    by_prompt: defaultdict[Prompt, list[Sampled]] = defaultdict(list)
    for answers in list_conversations(candidates, trajectories):
        for answer in answers:
            by_prompt[answer.prompt].append(answer)
    pairs = [pair for asked in by_prompt.values() for pair in (*_right_pairs(asked), *_faster_pairs(asked))]
    return [_row(task, pair) for pair in _spend_once(pairs)]


@dataclass(frozen=True)
class _Pair:
    kind: PreferenceKind
    better: Sampled
    worse: Sampled

    @cached_property
    def distance(self) -> float:
        return distance(self.better.candidate.source, self.worse.candidate.source)


def _right_pairs(asked: Sequence[Sampled]) -> Iterator[_Pair]:
    accepted = [answer for answer in asked if answer.is_target]
    for worse in filter(lambda one: _is_bad(one.candidate), asked if accepted else ()):
        cheats = worse.candidate.error_class is not None and worse.candidate.error_class.is_illegal
        kind = PreferenceKind.HONEST if cheats else PreferenceKind.RIGHT
        for better in accepted:
            if cheats or not _is_poorer(better.candidate, worse.candidate):
                yield _Pair(kind, better, worse)


def _is_bad(candidate: Candidate) -> bool:
    """Whether it failed by itself: what a seeded fault makes worse, a model hardly prefers."""
    return (
        not candidate.accepted
        and not candidate.fault
        and candidate.error_class is not None
        and not candidate.error_class.is_undecided
    )


def _is_poorer(better: Candidate, worse: Candidate) -> bool:
    """Whether the accepted program does without something that the failed one tried: a technique, or fusion."""
    one, other = describe_structure(better.source), describe_structure(worse.source)
    return bool(other.techniques - one.techniques) or one.kernels > other.kernels


def _faster_pairs(asked: Sequence[Sampled]) -> Iterator[_Pair]:
    """Neighbours in the order of their measured times that differ beyond the noise."""
    timed = [
        (timing.median_ms, answer) for answer in asked if answer.is_right and (timing := timing_of(answer.candidate))
    ]
    ranked = [answer for _, answer in sorted(timed, key=lambda pair: (pair[0], pair[1].candidate.candidate_id))]
    for index, better in enumerate(ranked):
        worse = next((one for one in ranked[index + 1 :] if is_faster(better.candidate, one.candidate)), None)
        if worse is not None and better.is_target:
            yield _Pair(PreferenceKind.FASTER, better, worse)


def _spend_once(pairs: Sequence[_Pair]) -> list[_Pair]:
    """Pairs that are far enough apart, every program at most once on each side of a kind, the farthest first."""
    spent: set[tuple[PreferenceKind, str, str]] = set()
    kept = []
    far = (pair for pair in pairs if pair.distance >= LEAST_DISTANCE)
    for pair in sorted(far, key=lambda pair: -pair.distance):
        sides = {(pair.kind, "better", pair.better.candidate.source), (pair.kind, "worse", pair.worse.candidate.source)}
        if not sides & spent:
            spent |= sides
            kept.append(pair)
    return kept


def _row(task: Task, pair: _Pair) -> PreferenceRow:
    better, worse = pair.better, pair.worse
    chosen, rejected = better.candidate, worse.candidate
    prompt = quote_answers(better.prompt)
    return PreferenceRow(
        preference_id=content_id("preference", task.task_id, better.prompt, better.message, worse.message),
        **task.columns(),
        prompt=prompt,
        chosen=better.message,
        rejected=worse.message,
        chosen_id=chosen.candidate_id,
        rejected_id=rejected.candidate_id,
        chosen_reward=chosen.reward,
        rejected_reward=rejected.reward,
        rejected_error=rejected.error_class,
        operator_family=task.operator_family,
        teacher=chosen.teacher,
        chosen_reward_speed=chosen.reward_speed,
        kind=pair.kind,
        decisions=len(list_changes(rejected.source, chosen.source)),
        distance=round(pair.distance, 3),
        **count_columns(prompt=prompt, chosen=better.message, rejected=worse.message),
    )
