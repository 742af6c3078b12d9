"""pass@k by the unbiased estimator, against counting all draws."""

import dataclasses
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.config import SamplingConfig
from musadata.records import HUMAN, ErrorClass
from musadata.sampling.assembly import assemble
from musadata.sampling.pass_rate import PassRate, average_rates, measure_pass_rate, pass_at_k
from tests.sampling.test_rollout import TASK, VERDICT, WRONG, converse


@given(st.integers(1, 9), st.data())
def test_pass_at_k_is_the_share_of_draws_in_which_one_passes(samples, data):
    passed, k = data.draw(st.integers(0, samples)), data.draw(st.integers(1, samples))
    draws = list(combinations([index < passed for index in range(samples)], k))
    assert pass_at_k(samples, passed, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_of_the_papers_formula():
    assert pass_at_k(8, 2, 1) == pytest.approx(0.25)
    assert pass_at_k(8, 2, 4) == pytest.approx(1 - 15 / 70)
    assert pass_at_k(8, 0, 8) == 0.0
    assert pass_at_k(8, 1, 8) == 1.0


@pytest.mark.parametrize(("samples", "passed", "k"), [(0, 0, 1), (3, 4, 1), (3, 1, 4), (3, 1, 0), (3, -1, 1)])
def test_impossible_counts_are_refused(samples, passed, k):
    with pytest.raises(ValueError):
        pass_at_k(samples, passed, k)


def test_what_few_samples_cannot_tell_is_left_out_of_a_mean():
    rates = [PassRate(8, 4), PassRate(2, 1), PassRate(4, 4), PassRate(0, 0)]
    found = average_rates(rates, (1, 8, 16))
    assert found == {
        "tasks": 3,
        "samples": 14,
        "passed": 9,
        "avg_at_k": 0.6667,
        "pass_at_k": {"1": 0.6667},
    }
    assert average_rates([], (1,)) == {"tasks": 0, "samples": 0, "passed": 0, "avg_at_k": None, "pass_at_k": {}}


def test_only_honest_first_answers_of_teachers_with_a_verdict_count():
    repaired, _ = converse([WRONG, VERDICT])
    candidates, _ = assemble(TASK, [repaired], "teacher", SamplingConfig())
    right = dataclasses.replace(candidates[1], turn=1, fault="")
    wrong = dataclasses.replace(candidates[0], fault="")
    others = [
        candidates[0],  # its fault was seeded
        candidates[1],  # a repair
        dataclasses.replace(right, teacher=HUMAN),
        dataclasses.replace(wrong, error_class=ErrorClass.INFRA),
    ]
    assert measure_pass_rate([right, wrong, wrong, *others]) == PassRate(3, 1)
    assert measure_pass_rate(others).average is None
