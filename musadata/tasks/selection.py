"""Which of the probed tasks to keep: one of each group of duplicates. Looks at small signatures only, in arrays.

A million signatures take 128 MB of memory and half a gigabyte in a scratch file, and 40 seconds of one core.
"""

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from musadata.config import TasksConfig
from musadata.errors import Outage
from musadata.records import Task
from musadata.tasks.balance import check_targets, drop_surplus
from musadata.tasks.decontaminate import load_fingerprints
from musadata.tasks.text import PERMUTATIONS

COLUMNS = ("task_id", "source_kind", "graph_fingerprint", "operators", "text_signature", "operator_family")
# What may become of a row, by the number that stands for it. "repeated": another row has the same id, and it is kept.
DECISIONS = ("kept", "repeated", "duplicate_graph", "near_duplicate", "balance")
KEPT, REPEATED, DUPLICATE_GRAPH, NEAR_DUPLICATE, BALANCE = range(len(DECISIONS))

Integers = npt.NDArray[Any]
_ROWS = 8  # values per band: texts of similarity 0.85 meet in some band with probability 0.994
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_PAIRS_AT_ONCE = 1 << 16
_ROWS_IN_MEMORY = 1 << 16  # 32 MB of texts
# People's code before drawn code, and what people wrote kernels for before everything.
_KIND_ORDER = {"paired": 0, "mined": 1, "composed": 2, "operator": 3, "nnsmith": 4}


@dataclass(frozen=True)
class Signatures:
    """What it takes to see that tasks are alike: arrays with one element a row.

    Attributes:
        ids: task ids, as bytes.
        kinds: rank of the source's kind.
        graphs, operators: hashes, of the graph and of the set of operators; equal only within one process.
        families: operator families.
        texts: MinHash values, [PERMUTATIONS, rows].
    """

    ids: npt.NDArray[np.bytes_]
    kinds: Integers
    graphs: Integers
    operators: Integers
    families: npt.NDArray[np.object_]
    texts: Integers

    @classmethod
    def read(cls, tables: Iterable[pa.Table], rows: int) -> "Signatures":
        """The signatures of tables of `COLUMNS`, `rows` in all; many texts lie in a scratch file without a name.

        Raises:
            Outage: there is no room for that file.
        """
        parts: list[tuple[Any, ...]] = []
        texts = _room_for_texts(rows)
        done = 0
        for table in tables:
            columns = {name: table.column(name).to_pylist() for name in COLUMNS if name != "text_signature"}
            flat = table.column("text_signature").combine_chunks().flatten().to_numpy(zero_copy_only=False)
            texts[:, done : done + len(table)] = flat.reshape(len(table), PERMUTATIONS).T
            done += len(table)
            parts.append(
                (
                    np.array(columns["task_id"], dtype=np.bytes_),
                    np.array([_KIND_ORDER.get(kind, len(_KIND_ORDER)) for kind in columns["source_kind"]], np.uint8),
                    np.array([hash(graph) for graph in columns["graph_fingerprint"]], np.int64),
                    np.array([hash(tuple(sorted(set(some)))) for some in columns["operators"]], np.int64),
                    np.array(columns["operator_family"], dtype=object),
                )
            )
        _forget_pages(texts)
        ids, kinds, graphs, operators, families = (np.concatenate(some) for some in zip(*parts, strict=True))
        return cls(ids, kinds, graphs, operators, families, texts)

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> "Signatures":
        """The signatures of tasks that are at hand."""
        rows = [{name: getattr(task, name) for name in COLUMNS} for task in tasks]
        kinds = [pa.string(), pa.string(), pa.string(), pa.list_(pa.string()), pa.list_(pa.int64()), pa.string()]
        return cls.read([pa.Table.from_pylist(rows, pa.schema(list(zip(COLUMNS, kinds, strict=True))))], len(rows))


def check_selection(config: TasksConfig) -> None:
    """Whether the families and benchmarks that the config names are known.

    Raises:
        MusadataError: one is not.
    """
    check_targets(config.families)
    for name in config.decontaminate:
        load_fingerprints(name)


def select(signatures: Signatures, config: TasksConfig) -> npt.NDArray[np.uint8]:
    """What becomes of each row, as an index into `DECISIONS`.

    Tasks are alike if they have the same graph, or if their texts are similar and use the same operators (texts alone
    would merge `F.relu(x)` with `F.gelu(x)`). Likeness is transitive. The representative of a group is its smallest
    id, mined code first; it does not depend on the order of the rows. Of rows with the same id the first one counts.
    """
    order = np.lexsort((signatures.ids, signatures.kinds))
    new = np.ones(len(order), bool)
    new[1:] = signatures.ids[order[1:]] != signatures.ids[order[:-1]]
    rows, task_of = order[new], np.cumsum(new) - 1  # the first row of each task; the task of each row in order
    by_graph = first_with_the_same(signatures.graphs[rows])
    groups = Groups(by_graph)
    for left, right in find_near_pairs(signatures.texts, signatures.operators[rows], rows, groups, _ROWS):
        groups.join(*keep_similar(signatures.texts, rows, left, right, config.duplicate_similarity))
    decided = np.zeros(len(rows), np.uint8)
    decided[groups.roots() != np.arange(len(rows))] = NEAR_DUPLICATE
    decided[by_graph != np.arange(len(rows))] = DUPLICATE_GRAPH
    if config.families:
        left_over = [(signatures.ids[row].decode(), signatures.families[row]) for row in rows[decided == KEPT]]
        surplus = np.array(drop_surplus(left_over, config.families), dtype=signatures.ids.dtype)
        decided[(decided == KEPT) & np.isin(signatures.ids[rows], surplus)] = BALANCE
    decisions = np.empty(len(order), np.uint8)
    decisions[order] = np.where(new | (decided[task_of] != KEPT), decided[task_of], REPEATED)
    return decisions


def first_with_the_same(values: Integers) -> Integers:
    """For each element the index of the first one that is equal."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    found: Integers = first[inverse]
    return found


class Groups:
    """Disjoint sets of indices; the root of a set is its smallest index."""

    def __init__(self, parents: Integers):
        self._parents = parents.copy()

    def roots(self) -> Integers:
        """The root of every index."""
        while np.any(self._parents != (above := self._parents[self._parents])):
            self._parents = above
        return self._parents

    def join(self, left: Integers, right: Integers) -> None:
        """Join the sets of each pair."""
        parents = self._parents
        for pair in zip(left.tolist(), right.tolist(), strict=True):
            roots = []
            for index in pair:
                while parents[index] != index:
                    parents[index] = parents[parents[index]]
                    index = int(parents[index])
                roots.append(index)
            parents[max(roots)] = min(roots)


def find_near_pairs(
    texts: Integers, operators: Integers, rows: Integers, groups: Groups, band: int
) -> Iterator[tuple[Integers, Integers]]:
    """Pairs of the same operators that agree in a band of so many values, some at a time, not yet in one group.

    Of each bucket of a band these are its neighbours, and its first with every other.
    """
    for start in range(0, PERMUTATIONS, band):
        mixed = operators.astype(np.uint64)
        for values in texts[start : start + band]:
            mixed = (mixed ^ values[rows]) * _PRIME
            mixed ^= mixed >> np.uint64(29)
        _forget_pages(texts)
        order = np.argsort(mixed, kind="stable")
        same = np.zeros(len(order), bool)
        same[1:] = mixed[order[1:]] == mixed[order[:-1]]
        positions = np.arange(len(order))
        first = np.maximum.accumulate(np.where(same, 0, positions))
        neighbours, others = positions[same], positions[same & (positions - first >= 2)]
        left = np.concatenate([order[neighbours - 1], order[first[others]]])
        right = np.concatenate([order[neighbours], order[others]])
        for at in range(0, len(left), _PAIRS_AT_ONCE):
            some = slice(at, at + _PAIRS_AT_ONCE)
            roots = groups.roots()
            new = (roots[left[some]] != roots[right[some]]) & (operators[left[some]] == operators[right[some]])
            yield left[some][new], right[some][new]


def keep_similar(
    texts: Integers, rows: Integers, left: Integers, right: Integers, threshold: float
) -> tuple[Integers, Integers]:
    """The pairs whose texts are at least so similar, by the share of equal values."""
    equal = np.zeros(len(left), np.int32)
    for values in texts if len(left) else ():
        equal += values[rows[left]] == values[rows[right]]
    enough = equal / PERMUTATIONS >= threshold
    return left[enough], right[enough]


def _room_for_texts(rows: int) -> Integers:
    shape = (PERMUTATIONS, rows)
    if rows <= _ROWS_IN_MEMORY:
        return np.zeros(shape, np.uint32)
    try:
        with tempfile.TemporaryFile(prefix="musadata-texts-") as file:
            # Without blocks of its own, a write to the mapped file would end the process once the disk is full.
            os.posix_fallocate(file.fileno(), 0, rows * PERMUTATIONS * np.dtype(np.uint32).itemsize)
            return np.memmap(file, np.uint32, "r+", shape=shape)
    except OSError as error:
        raise Outage(
            f"no room for what the selection compares ({error.strerror or error})",
            where=tempfile.gettempdir(),
            remedy="make room there, or name another folder in TMPDIR",
        ) from error


def _forget_pages(texts: Integers) -> None:
    """Give back the memory through which a scratch file was read or written; its contents stay."""
    if isinstance(texts, np.memmap):
        texts.flush()
        texts._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
