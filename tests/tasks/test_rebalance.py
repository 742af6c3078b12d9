"""Rebalancing makes shards equal in size with the fewest moves, and never moves fixed tasks."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from musadata.tasks.rebalance import rebalance

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=12)


def shards_of(sizes: list[int]) -> list[list[str]]:
    return [[f"task-{shard}-{index}" for index in range(size)] for shard, size in enumerate(sizes)]


def sizes_after(shards: list[list[str]], moves: dict) -> list[int]:
    count = Counter({index: len(tasks) for index, tasks in enumerate(shards)})
    for move in moves.values():
        count[move.source] -= 1
        count[move.target] += 1
    return [count[index] for index in range(len(shards))]


@given(SIZES)
def test_sizes_differ_by_one_at_most_and_as_few_tasks_as_possible_move(sizes):
    shards = shards_of(sizes)
    moves = rebalance(shards)
    after = sizes_after(shards, moves)
    assert max(after) - min(after) <= 1
    assert len(moves) == sum(max(0, before - now) for before, now in zip(sizes, after, strict=True))
    assert all(task in shards[move.source] for task, move in moves.items())


@given(SIZES, st.randoms(use_true_random=False))
def test_fixed_tasks_stay_and_nothing_gets_worse(sizes, generator):
    shards = shards_of(sizes)
    fixed = {task for tasks in shards for task in tasks if generator.random() < 0.5}
    moves = rebalance(shards, fixed)
    assert not fixed & moves.keys()
    assert max(sizes_after(shards, moves)) <= max(sizes)
    assert min(sizes_after(shards, moves)) >= min(sizes)


def test_even_shards_are_left_alone():
    assert rebalance(shards_of([3, 4, 3])) == {}
    assert rebalance([]) == {}
