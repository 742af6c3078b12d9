"""Which split each kept task belongs to: whole clusters of alike tasks, so that nothing of a training task is tested.

Tasks are in one cluster if their graphs are equal, if their texts are near-duplicates, whatever their operators, or if
they have the same structure: the same set of operators. Validation and test get at least 5 % of the tasks each, and 50
where that is no more than a tenth of them.
"""

import math
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from musadata.storage.shards import SPLITS
from musadata.tasks.selection import (
    KEPT,
    Groups,
    Integers,
    Signatures,
    find_near_pairs,
    first_with_the_same,
    keep_similar,
)
from musadata.tasks.text import PERMUTATIONS

TRAIN, VALIDATION, TEST = range(len(SPLITS))
LEAST_SHARE = 0.05
LEAST_TASKS = 50
MOST_SHARE = 0.1  # that they take of a small corpus
_BAND = 4  # values per band: texts of similarity 0.85 meet in some band with probability 1 - 1e-10
_EXACT = 1 << 24  # pairs of a held-out and another task that are all compared, in 10 seconds


def assign_splits(signatures: Signatures, decisions: npt.NDArray[np.uint8], similarity: float) -> npt.NDArray[np.uint8]:
    """The split of each row, as an index into `SPLITS`. Rows that are dropped have that of a kept one with their id.

    The order of the rows does not matter. Up to some ten thousand tasks every text of validation and test is compared
    with every other one; in a larger corpus, a pair of exactly that similarity is found with a probability that depends
    on how many texts share a band.
    """
    kept = np.flatnonzero(decisions == KEPT)
    if not len(kept):
        return np.zeros(len(decisions), np.uint8)
    rows = kept[np.argsort(signatures.ids[kept])]
    clusters = _cluster(signatures, rows, similarity)
    while True:
        found = _deal(signatures.ids[rows], clusters.roots())
        left, right = _leaks(signatures, rows, found, similarity)
        if not len(left):
            break
        clusters.join(left, right)
    ids = signatures.ids[rows]
    places = np.minimum(np.searchsorted(ids, signatures.ids), len(ids) - 1)
    return np.where(ids[places] == signatures.ids, found[places], TRAIN).astype(np.uint8)


def _cluster(signatures: Signatures, rows: Integers, similarity: float) -> Groups:
    """Groups of positions in `rows`."""
    clusters = Groups(first_with_the_same(signatures.graphs[rows]))
    same_operators = first_with_the_same(signatures.operators[rows])
    clusters.join(np.arange(len(rows)), same_operators)
    anything = np.zeros(len(rows), np.int64)
    for left, right in find_near_pairs(signatures.texts, anything, rows, clusters, _BAND):
        clusters.join(*keep_similar(signatures.texts, rows, left, right, similarity))
    return clusters


def _deal(ids: npt.NDArray[np.bytes_], roots: Integers) -> npt.NDArray[np.uint8]:
    """Splits of whole clusters, in the order of a hash: test from its start, validation from its end.

    So a task that is tested in one corpus hardly trains in another one, larger or smaller. Clusters of more than half
    of what a split needs are taken last.
    """
    wanted = split_size(len(ids))
    splits = np.zeros(len(ids), np.uint8)
    names, sizes = np.unique(roots, return_counts=True)
    by_cluster, ends = np.argsort(roots, kind="stable"), np.cumsum(sizes)
    hashes = [sha256(b"split/" + ids[root]).digest() for root in names.tolist()]
    for split, backwards in ((TEST, False), (VALIDATION, True)):
        order = sorted(range(len(names)), key=hashes.__getitem__, reverse=backwards)
        order.sort(key=lambda place: bool(sizes[place] > max(1, wanted // 2)))
        have = 0
        for place in order:
            if have < wanted and sizes[place] <= 2 * wanted and not splits[names[place]]:
                splits[by_cluster[ends[place] - sizes[place] : ends[place]]] = split
                have += int(sizes[place])
    return splits


def split_size(tasks: int) -> int:
    """Tasks that validation and test should have each, of so many."""
    return min(max(math.ceil(LEAST_SHARE * tasks), LEAST_TASKS), int(MOST_SHARE * tasks))


def _leaks(
    signatures: Signatures, rows: Integers, splits: npt.NDArray[np.uint8], similarity: float
) -> tuple[Integers, Integers]:
    """Pairs of positions in different splits whose texts are near-duplicates."""
    held_out = np.flatnonzero(splits != TRAIN)
    none = np.zeros(0, np.int64)
    if len(held_out) * len(rows) > _EXACT:
        return none, none
    texts = np.ascontiguousarray(signatures.texts[:, rows].T)
    pairs = []
    for place in held_out.tolist():
        equal = np.count_nonzero(texts == texts[place], axis=1)
        others = np.flatnonzero((equal >= similarity * PERMUTATIONS) & (splits != splits[place]))
        pairs.append((np.full(len(others), place), others))
    if not pairs:
        return none, none
    left, right = zip(*pairs, strict=True)
    return np.concatenate(left), np.concatenate(right)
