"""The paper's reward."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.config import SamplingConfig
from musadata.records import ErrorClass
from musadata.verifier.reward import reward, reward_parts


@pytest.mark.parametrize(
    ("error_class", "share", "speedup", "expected"),
    [
        (None, 1.0, None, 1.0),
        (None, 1.0, 0.5, 1.0),
        (None, 1.0, 2.0, 1.5),
        (None, 1.0, 100.0, 3.0),
        (ErrorClass.CORRECTNESS, 0.5, None, -0.25),
        (ErrorClass.CORRECTNESS, 0.0, None, -1.0),
        (ErrorClass.COMPILE, 0.0, None, -1.0),
        (ErrorClass.RUNTIME, 0.9, None, -1.0),
        (ErrorClass.CHEATING, 1.0, 50.0, -1.0),
        (ErrorClass.INFRA, 0.0, None, 0.0),
    ],
)
def test_reward_follows_the_papers_rule(error_class, share, speedup, expected):
    assert reward(error_class, share, speedup, SamplingConfig(speedup_weight=0.5, speedup_cap=4.0)) == expected


@given(
    st.none() | st.sampled_from(ErrorClass),
    st.floats(0, 1),
    st.none() | st.floats(0.001, 1000),
    st.floats(0, 10),
    st.floats(0, 10),
)
def test_the_parts_add_up_and_only_an_accepted_candidate_is_paid_for_speed(error_class, share, speedup, weight, cap):
    sampling = SamplingConfig(speedup_weight=weight, speedup_cap=cap)
    parts = reward_parts(error_class, share, speedup, sampling)
    assert parts.validity + parts.correctness + parts.speed == reward(error_class, share, speedup, sampling)
    assert parts.speed == 0.0 or error_class is None
    assert 0.0 <= parts.speed <= weight * cap
    assert parts.validity == 0.0 or parts.correctness == 0.0


@pytest.mark.parametrize(
    ("weight", "cap", "expected"),
    [(0.5, 4.0, 1.0), (0.25, 4.0, 0.5), (0.5, 1.5, 0.75), (0.0, 4.0, 0.0), (0.5, 0.0, 0.0)],
)
def test_weight_and_cap_of_the_speed_are_the_configs(weight, cap, expected):
    sampling = SamplingConfig(speedup_weight=weight, speedup_cap=cap)
    assert reward_parts(None, 1.0, 3.0, sampling).speed == pytest.approx(expected)  # three times as fast: ν − 1 = 2
