import pytest

from musadata.config import SamplingConfig
from musadata.sampling.returns import trajectory_return

CONFIG = SamplingConfig()


def test_success_at_the_first_turn_beats_success_at_the_second():
    assert trajectory_return([1.0], True, CONFIG) > trajectory_return([-1.0, 1.0], True, CONFIG)


def test_return_is_the_papers_formula():
    assert trajectory_return([-1.0, 1.0], True, CONFIG) == pytest.approx(0.75 * -1 + 0.25 * 1 + 0.1)


def test_failure_gets_no_bonus():
    assert trajectory_return([-1.0, -0.5], False, CONFIG) == pytest.approx(0.75 * -1 + 0.25 * -0.5)
