"""The paper's reward."""

import pytest

from musadata.config import SamplingConfig
from musadata.records import ErrorClass
from musadata.verifier.reward import reward


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
