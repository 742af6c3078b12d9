"""Families approach their targets; nothing is dropped that is not in surplus."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.config import TasksConfig
from musadata.errors import MusadataError
from musadata.tasks.balance import MAX_WEIGHT, drop_surplus, sampling_weights
from tests.tasks.test_selection import select, signature

TASKS = [(f"e{index}", "elementwise") for index in range(80)] + [(f"c{index}", "convolution") for index in range(20)]


def test_family_above_its_target_is_cut_to_it():
    dropped = drop_surplus(TASKS, {"elementwise": 0.3, "convolution": 0.5})
    assert Counter(task_id[0] for task_id in dropped) == {"e": 50}


def test_no_targets_keep_everything():
    assert drop_surplus(TASKS, {}) == []


@given(st.randoms(use_true_random=False))
def test_choice_does_not_depend_on_the_order(generator: random.Random):
    shuffled = generator.sample(TASKS, len(TASKS))
    assert drop_surplus(shuffled, {"elementwise": 0.3}) == drop_surplus(TASKS, {"elementwise": 0.3})


def test_rare_family_is_shown_more_often_up_to_a_bound():
    weights = sampling_weights(
        {"elementwise": 80, "convolution": 20, "pooling": 1}, {"convolution": 0.4, "pooling": 0.2}
    )
    assert weights["elementwise"] == 1.0
    assert weights["convolution"] == pytest.approx(0.4 * 101 / 20)
    assert weights["pooling"] == MAX_WEIGHT


def test_selection_balances_what_duplicates_leave():
    texts = [signature(f"t{index}", f"g{index}") for index in range(10)]
    assert select(texts, TasksConfig(families={"other": 0.4})) == dict.fromkeys(
        drop_surplus([(one.task_id, "other") for one in texts], {"other": 0.4}), "balance"
    )


@pytest.mark.parametrize("targets", [{"convolutions": 0.5}, {"convolution": 5.0}, {"convolution": -0.1}])
def test_target_that_is_none_is_an_error_that_names_the_key(targets):
    with pytest.raises(MusadataError, match=f"tasks.families.{next(iter(targets))}"):
        drop_surplus(TASKS, targets)
