"""The paper's reward of one candidate, from q, the share of randomised tests passed, and ν, the speedup over eager.

−1                                       extraction, compilation or execution fails, a fallback is found, or q = 0
−0.5 + 0.5·q                             0 < q < 1
1 + λ·min(max(ν − 1, 0), ν_max)          q = 1 and legal; without a measured speedup ν counts as 1
"""

from dataclasses import dataclass

from musadata.config import SamplingConfig
from musadata.records import ErrorClass


@dataclass(frozen=True)
class RewardParts:
    """The stages of a reward, which is their sum. At most one of `validity` and `correctness` is not 0.

    Attributes:
        validity: -1 where nothing right came of the candidate, or a cheat; else 0.
        correctness: -0.5 + 0.5 q where some tests passed, 1 where all did; else 0.
        speed: what the speedup adds to an accepted candidate; 0 where nothing was timed.
    """

    validity: float = 0.0
    correctness: float = 0.0
    speed: float = 0.0

    @property
    def total(self) -> float:
        return self.validity + self.correctness + self.speed


def reward_parts(
    error_class: ErrorClass | None,
    test_share: float,
    speedup: float | None = None,
    sampling: SamplingConfig = SamplingConfig(),  # noqa: B008 (frozen)
) -> RewardParts:
    """The parts of a verdict's reward; an undecided one says nothing about the candidate and has none: all are 0."""
    if error_class is not None and error_class.is_undecided:
        return RewardParts()
    if error_class is None:
        gained = max((speedup or 1.0) - 1.0, 0.0)
        return RewardParts(correctness=1.0, speed=sampling.speedup_weight * min(gained, sampling.speedup_cap))
    if error_class is not ErrorClass.CORRECTNESS or test_share <= 0.0:
        return RewardParts(validity=-1.0)
    return RewardParts(correctness=-0.5 + 0.5 * min(test_share, 1.0))


def reward(
    error_class: ErrorClass | None,
    test_share: float,
    speedup: float | None = None,
    sampling: SamplingConfig = SamplingConfig(),  # noqa: B008 (frozen)
) -> float:
    """The reward of a verdict, see `reward_parts`."""
    return reward_parts(error_class, test_share, speedup, sampling).total
