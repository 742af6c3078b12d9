"""Which of the probed tasks to keep: one of each group of duplicates. Looks at small signatures only."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

from musadata.config import TasksConfig
from musadata.records import Task
from musadata.tasks.balance import check_targets, drop_surplus
from musadata.tasks.decontaminate import load_fingerprints
from musadata.tasks.text import PERMUTATIONS, similarity

_ROWS = 8  # values per band: texts of similarity 0.85 meet in some band with probability 0.994
# Which duplicate is kept: tasks with kernels first, then mined code, then generated code.
_KIND_ORDER = {"paired": 0, "mined": 1, "composed": 2, "operator": 3, "nnsmith": 4}


@dataclass(frozen=True)
class TaskSignature:
    """The data for comparing tasks: about 600 bytes per task."""

    task_id: str
    source_kind: str
    graph_fingerprint: str
    operators: str  # a digest of the set of operators
    text_signature: tuple[int, ...]
    operator_family: str = "other"


Key = Callable[[TaskSignature], object]


def signature_of(task: Task) -> TaskSignature:
    """The small part of a task that selection needs."""
    operators = sha256("\n".join(sorted(set(task.operators))).encode()).hexdigest()[:16]
    return TaskSignature(
        task_id=task.task_id,
        source_kind=task.source_kind.value,
        graph_fingerprint=task.graph_fingerprint,
        operators=operators,
        text_signature=task.text_signature,
        operator_family=task.operator_family.value,
    )


def check_selection(config: TasksConfig) -> None:
    """Whether the families and benchmarks that the config names are known.

    Raises:
        MusadataError: one is not.
    """
    check_targets(config.families)
    for name in config.decontaminate:
        load_fingerprints(name)


def select(signatures: Iterable[TaskSignature], config: TasksConfig) -> dict[str, str]:
    """The ids to drop, with the reason: "duplicate_graph", "near_duplicate" or "balance" (see `balance`).

    Tasks are alike if they have the same graph, or if their texts are similar and use the same operators (texts alone
    would merge `F.relu(x)` with `F.gelu(x)`). Likeness is transitive. The representative of a group is its smallest
    id, mined code first; it does not depend on the order of the signatures. A task that was probed twice is one.
    """
    ordered = sorted(
        {one.task_id: one for one in signatures}.values(),
        key=lambda one: (_KIND_ORDER.get(one.source_kind, len(_KIND_ORDER)), one.task_id),
    )
    by_graph = _Groups(len(ordered))
    for same in _group_by(ordered, lambda one: one.graph_fingerprint):
        by_graph.join(same)
    groups = _Groups(len(ordered), by_graph)
    for pair in _similar_pairs(ordered, config.duplicate_similarity):
        groups.join(pair)
    dropped = {}
    for index, signature in enumerate(ordered):
        if by_graph.root(index) != index:
            dropped[signature.task_id] = "duplicate_graph"
        elif groups.root(index) != index:
            dropped[signature.task_id] = "near_duplicate"
    kept = [(one.task_id, one.operator_family) for one in ordered if one.task_id not in dropped]
    return dropped | dict.fromkeys(drop_surplus(kept, config.families), "balance")


def _group_by(signatures: Sequence[TaskSignature], key: Key) -> Iterator[list[int]]:
    found: dict[object, list[int]] = defaultdict(list)
    for index, signature in enumerate(signatures):
        found[key(signature)].append(index)
    return (indices for indices in found.values() if len(indices) > 1)


def _similar_pairs(signatures: Sequence[TaskSignature], threshold: float) -> Iterator[tuple[int, int]]:
    """Pairs of the same operators whose signatures agree in a band and then in enough values."""
    seen: set[tuple[int, int]] = set()
    for start in range(0, PERMUTATIONS, _ROWS):
        for bucket in _group_by(signatures, _band(start)):
            for pair in pairwise(bucket):
                yield from _check(signatures, pair, threshold, seen)
            for other in bucket[2:]:
                yield from _check(signatures, (bucket[0], other), threshold, seen)


def _check(
    signatures: Sequence[TaskSignature], pair: tuple[int, int], threshold: float, seen: set[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    if pair not in seen:
        seen.add(pair)
        if similarity(signatures[pair[0]].text_signature, signatures[pair[1]].text_signature) >= threshold:
            yield pair


def _band(start: int) -> Key:
    return lambda one: (one.operators, one.text_signature[start : start + _ROWS])


class _Groups:
    """Disjoint sets of indices; the root of a set is its smallest index."""

    def __init__(self, count: int, merged: "_Groups | None" = None):
        self._parent: list[int] = list(merged._parent) if merged else list(range(count))

    def root(self, index: int) -> int:
        while self._parent[index] != index:
            self._parent[index] = self._parent[self._parent[index]]
            index = self._parent[index]
        return index

    def join(self, indices: Sequence[int]) -> None:
        roots = sorted({self.root(index) for index in indices})
        for other in roots[1:]:
            self._parent[other] = roots[0]
