"""The paper's reward of one candidate, from q, the share of randomised tests passed, and ν, the speedup over eager.

−1                                       extraction, compilation or execution fails, a fallback is found, or q = 0
−0.5 + 0.5·q                             0 < q < 1
1 + λ·min(max(ν − 1, 0), ν_max)          q = 1 and legal; without a measured speedup ν counts as 1
"""

from musadata.config import SamplingConfig
from musadata.records import ErrorClass


def reward(
    error_class: ErrorClass | None,
    test_share: float,
    speedup: float | None = None,
    sampling: SamplingConfig = SamplingConfig(),  # noqa: B008 (frozen)
) -> float:
    """The reward of a verdict; an infra verdict says nothing about the candidate and has none: 0."""
    if error_class is ErrorClass.INFRA:
        return 0.0
    if error_class is None:
        gained = max((speedup or 1.0) - 1.0, 0.0)
        return 1.0 + sampling.speedup_weight * min(gained, sampling.speedup_cap)
    if error_class is not ErrorClass.CORRECTNESS or test_share <= 0.0:
        return -1.0
    return -0.5 + 0.5 * min(test_share, 1.0)
