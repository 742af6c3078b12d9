"""Balancing the number of tasks per shard: a file with many modules must not make one shard half of a run's work."""

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Move:
    """From which shard a task goes to which, by index."""

    source: int
    target: int


def rebalance(shards: Sequence[Sequence[str]], fixed: Collection[str] = ()) -> dict[str, Move]:
    """The moves after which shard sizes differ by at most one, as far as movable tasks allow; as few as possible.

    `shards` holds each shard's task ids in order, `fixed` the tasks that stay (their kernels are in the same shard).
    The last tasks of the larger shards go to the smallest shards.
    """
    mean, over = divmod(sum(map(len, shards)), max(1, len(shards)))
    largest = sorted(range(len(shards)), key=lambda index: -len(shards[index]))
    room = [(len(tasks), index) for index, tasks in enumerate(shards)]
    heapq.heapify(room)
    moves: dict[str, Move] = {}
    for rank, source in enumerate(largest):
        surplus = len(shards[source]) - mean - (rank < over)
        movable = [task for task in shards[source] if task not in fixed]
        for task in movable[-surplus:] if surplus > 0 else ():
            size, target = room[0]
            if size > mean:  # the remaining surplus consists of fixed tasks
                return moves
            heapq.heapreplace(room, (size + 1, target))
            moves[task] = Move(source, target)
    return moves
