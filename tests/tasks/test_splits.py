"""Nothing that is like a training task is in validation or test, and these are as large as they are meant to be."""

import random
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.storage.shards import SPLITS
from musadata.tasks.selection import Signatures
from musadata.tasks.selection import select as decide
from musadata.tasks.splits import assign_splits, split_size
from musadata.tasks.text import similarity
from tests.tasks.test_selection import CONFIG, LONG, lines, signature


def split(tasks):
    """The split of each task, by its id."""
    signatures = Signatures.of(tasks)
    splits = assign_splits(signatures, decide(signatures, CONFIG), CONFIG.duplicate_similarity)
    return {task.task_id: SPLITS[one] for task, one in zip(tasks, splits, strict=True)}


def distinct(count):
    return [signature(f"t{number:03d}", f"g{number}", lines(20, f"{number}x"), f"o{number}") for number in range(count)]


def test_sizes_are_five_per_cent_and_fifty_tasks_where_the_corpus_allows():
    assert [split_size(tasks) for tasks in (0, 10, 156, 500, 1000, 10_000)] == [0, 1, 15, 50, 50, 500]
    assert Counter(split(distinct(200)).values()) == {"train": 160, "validation": 20, "test": 20}


def test_no_tasks_have_no_splits():
    assert split([]) == {}


def test_a_corpus_of_a_few_tasks_trains_on_one_of_them_at_least():
    for count in range(1, 8):
        assert "train" in split(distinct(count)).values()


def test_a_cluster_too_large_for_a_split_trains():
    alike = [signature(f"a{number}", f"h{number}", lines(20, f"{number}y"), "same") for number in range(80)]
    found = split(alike + distinct(40))
    assert {found[task.task_id] for task in alike} == {"train"}
    assert Counter(found.values())["test"] == split_size(120)


def test_equal_structures_and_near_texts_are_in_one_split():
    random_ = random.Random(5)
    tasks = distinct(60)
    for number in range(60):
        text = LONG.replace("* 3", f"* {number}").replace("self.bias", f"self.shift{number}")
        tasks.append(signature(f"u{number:03d}", f"h{number}", text, f"p{number}"))  # near each other in text alone
        tasks.append(signature(f"v{number:03d}", f"k{number}", lines(20, f"{number}z"), f"q{number % 20}"))
    random_.shuffle(tasks)
    found = split(tasks)
    assert len({found[f"u{number:03d}"] for number in range(60)}) == 1
    for number in range(20):
        assert len({found[f"v{other:03d}"] for other in range(number, 60, 20)}) == 1


@given(st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=6)
def test_no_split_leaks_and_the_order_does_not_matter(source: random.Random):
    tasks = [
        signature(
            f"t{number:03d}",
            f"g{source.randrange(60)}",
            lines(source.choice((18, 20, 22, 24)), f"{source.randrange(30)}x"),
            f"o{source.randrange(50)}",
        )
        for number in range(80)
    ]
    found = split(tasks)
    shuffled = tasks[:]
    source.shuffle(shuffled)
    assert split(shuffled) == found
    signatures = Signatures.of(tasks)
    kept = [task for task, one in zip(tasks, decide(signatures, CONFIG), strict=True) if one == 0]
    for one in kept:
        for other in kept:
            if found[one.task_id] != found[other.task_id]:
                assert one.graph_fingerprint != other.graph_fingerprint
                assert one.operators != other.operators
                assert similarity(one.text_signature, other.text_signature) < CONFIG.duplicate_similarity


def test_rows_of_the_same_id_have_the_same_split():
    tasks = distinct(40)
    signatures = Signatures.of([*tasks, *tasks])
    splits = assign_splits(signatures, decide(signatures, CONFIG), CONFIG.duplicate_similarity)
    assert np.array_equal(splits[:40], splits[40:])


def test_a_task_keeps_its_split_while_the_corpus_grows_a_little():
    before, after = split(distinct(200)), split(distinct(210))
    assert sum(before[name] != after[name] for name in before) <= 10
    assert not any({before[name], after[name]} == {"validation", "test"} for name in before)
