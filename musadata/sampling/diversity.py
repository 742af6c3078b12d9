"""Which of a task's accepted candidates are kept: the ones that differ most.

The paper draws RFT targets from clusters of correct answers instead of keeping the fastest (removing that cost it
84.8 -> 82.6 Pass@8) but does not report its metric. Ours is `structure.distance`. Candidates that are nearly identical
collapse into one; of the others new techniques come first, then the farthest from those before (Gonzalez, 1985).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from musadata.sampling.structure import Structure, describe_structure, distance, is_near_identical
from musadata.training_config import KeepBy

# Why a candidate was chosen.
ONLY, FIRST, NEW_TECHNIQUES, FAR, FASTEST = "only structure", "most typical", "new techniques", "different", "fastest"
# Why one was not.
SAME, BEYOND_KEEP = "same_structure", "beyond_keep"


@dataclass(frozen=True)
class Choice:
    """What became of one candidate: why it was chosen, or why not and what was chosen instead of it.

    Attributes:
        reason: one of the words above.
        instead: of a candidate that collapsed into another, the index of that one; else -1.
    """

    chosen: bool
    reason: str
    instead: int = -1


def choose_diverse(
    sources: Sequence[str], speedups: Sequence[float | None], keep: int, by: KeepBy = KeepBy.STRUCTURE
) -> list[Choice]:
    """What becomes of each source, in their order; at most `keep` are chosen.

    Among nearly identical ones the fastest stands for all, where speed was measured, else the first. With
    `KeepBy.SPEED` the fastest structures are chosen, those that were not measured last.
    """
    structures = [describe_structure(source) for source in sources]
    groups = _collapse(structures, speedups)
    chosen = _by_speed(groups, speedups, keep) if by is KeepBy.SPEED else _by_structure(groups, structures, keep)
    choices = {}
    for first, group in groups.items():
        reason = chosen.get(first, BEYOND_KEEP)
        choices[first] = Choice(first in chosen, reason)
        choices |= {other: Choice(False, SAME, first) for other in group if other != first}
    return [choices[index] for index in range(len(sources))]


def _collapse(structures: Sequence[Structure], speedups: Sequence[float | None]) -> dict[int, list[int]]:
    """The candidates that are nearly identical to each other, by the one that stands for them."""
    groups: list[list[int]] = []
    seen: dict[Structure, list[int]] = {}
    for index, structure in enumerate(structures):
        group = seen.get(structure)
        if group is None:
            alike = (one for one in groups if is_near_identical(structures[one[0]], structure))
            group = next(alike, [])
            if not group:
                groups.append(group)
            seen[structure] = group
        group.append(index)
    return {max(group, key=lambda index: (_speed(speedups[index]), -index)): group for group in groups}


def _speed(speedup: float | None) -> float:
    return -1.0 if speedup is None else speedup


def _by_speed(groups: dict[int, list[int]], speedups: Sequence[float | None], keep: int) -> dict[int, str]:
    ranked = sorted(groups, key=lambda index: (-_speed(speedups[index]), index))
    return {index: FASTEST if speedups[index] is not None else FIRST for index in ranked[:keep]}


def _by_structure(groups: dict[int, list[int]], structures: Sequence[Structure], keep: int) -> dict[int, str]:
    """The first two are those that are farthest from each other, so that the set reaches to the ends of the space."""
    left = sorted(groups)
    if len(left) <= 1:
        return dict.fromkeys(left, ONLY)
    far = {pair: distance(structures[pair[0]], structures[pair[1]]) for pair in combinations(left, 2)}

    def between(one: int, other: int) -> float:
        return far[min(one, other), max(one, other)]

    typical = min(left, key=lambda one: (sum(between(one, other) for other in left if other != one), one))
    chosen = {typical: FIRST} if keep == 1 else _ends(far, structures)
    while len(chosen) < min(keep, len(left)):
        known = {structures[index].algorithm for index in chosen}
        rest = [index for index in left if index not in chosen]
        best = max(
            rest,
            key=lambda one: (
                structures[one].algorithm not in known,
                min(between(one, other) for other in chosen),
                sum(between(one, other) for other in chosen),
                -one,
            ),
        )
        chosen[best] = NEW_TECHNIQUES if structures[best].algorithm not in known else FAR
    return chosen


def _ends(far: dict[tuple[int, int], float], structures: Sequence[Structure]) -> dict[int, str]:
    """The two that are farthest from each other, of different techniques where there are such."""

    def rank(pair: tuple[int, int]) -> tuple[bool, float, int, int]:
        differ = structures[pair[0]].algorithm != structures[pair[1]].algorithm
        return differ, far[pair], -pair[0], -pair[1]

    first, second = max(far, key=rank)
    new = structures[first].algorithm != structures[second].algorithm
    return {first: NEW_TECHNIQUES if new else FAR, second: NEW_TECHNIQUES if new else FAR}
