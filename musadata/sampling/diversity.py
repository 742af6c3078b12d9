"""Which of a task's accepted candidates are kept: the ones that differ most.

The paper draws RFT targets from clusters of correct answers instead of keeping the fastest (removing that cost it
84.8 -> 82.6 Pass@8) but does not report its metric. Ours is the Jaccard distance of abstracted token shingles with
greedy farthest-point selection, a 2-approximation of the best k-center cover (Gonzalez, 1985).
"""

from collections.abc import Sequence

from musadata.sampling.structure import Structure, describe_structure, similarity

SAME = 0.9  # from this similarity on, two kernels teach the same thing


def choose_diverse(sources: Sequence[str], rewards: Sequence[float], keep: int) -> list[int]:
    """Indices of at most `keep` sources, best reward first, then each as far as possible from those before it.

    Sources that are `SAME` as a chosen one are never chosen. Ties go to the earlier source.
    """
    structures = [describe_structure(source) for source in sources]
    left = list(range(len(sources)))
    chosen: list[int] = []
    while left and len(chosen) < keep:
        best = max(left, key=lambda index: (_distance(structures, index, chosen), rewards[index], -index))
        if chosen and _distance(structures, best, chosen) < 1 - SAME:
            break
        chosen.append(best)
        left.remove(best)
    return chosen


def _distance(structures: Sequence[Structure], index: int, chosen: Sequence[int]) -> float:
    return min((1 - similarity(structures[index], structures[other]) for other in chosen), default=1.0)
