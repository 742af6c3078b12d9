"""PrimeEcho's return."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.config import SamplingConfig
from musadata.records import ErrorClass
from musadata.sampling.returns import trajectory_return
from musadata.verifier.reward import reward

CONFIG = SamplingConfig()
SHARE = st.floats(0, 1, exclude_max=True)
SPEEDUP = st.none() | st.floats(0.01, 100)


def failed(share: float) -> float:
    return reward(ErrorClass.CORRECTNESS, share, None, CONFIG)


@pytest.mark.parametrize(
    ("rewards", "success", "expected"),
    [
        ([1.0], True, 0.75 * 1 + 0.25 * 1 + 0.2),
        ([-1.0, 1.0], True, 0.75 * -1 + 0.25 * 1 + 0.1),
        ([-0.25, -1.0, 2.0], True, 0.75 * -0.25 + 0.25 * 2 + 0.0),
        ([-1.0, -0.5], False, 0.75 * -1 + 0.25 * -0.5),
        ([-0.25, -1.0, -1.0], False, 0.75 * -0.25 + 0.25 * -0.25),
    ],
)
def test_return_is_the_papers_formula(rewards, success, expected):
    assert trajectory_return(rewards, success, CONFIG) == pytest.approx(expected)


@given(SHARE, SHARE, SPEEDUP)
def test_success_at_the_first_turn_beats_every_later_one(first, second, speedup):
    right = reward(None, 1.0, speedup, CONFIG)
    early = trajectory_return([reward(None, 1.0, None, CONFIG)], True, CONFIG)
    assert early > trajectory_return([failed(first), right], True, CONFIG)
    assert early > trajectory_return([failed(first), failed(second), right], True, CONFIG)


@given(st.lists(SHARE, min_size=1, max_size=3))
def test_failure_gets_no_bonus_and_stays_below_zero(shares):
    rewards = [failed(share) for share in shares]
    generous = dataclasses.replace(CONFIG, early_bonus=(9.0, 9.0, 9.0))
    assert trajectory_return(rewards, False, CONFIG) == trajectory_return(rewards, False, generous) < 0


def test_a_turn_without_a_verdict_counts_neither_for_nor_against():
    assert trajectory_return([-1.0, None], False, CONFIG) == trajectory_return([-1.0], False, CONFIG) == -1.0
    assert trajectory_return([None], False, CONFIG) == 0.0
