"""The return of a conversation (PrimeEcho, MusaCoder, arXiv 2606.04847)."""

from collections.abc import Sequence

from musadata.config import SamplingConfig


def trajectory_return(rewards: Sequence[float], success: bool, config: SamplingConfig) -> float:
    """alpha * first + (1 - alpha) * best + early bonus.

    `rewards` holds one reward per turn, at least one; the bonus goes to success only, more for earlier turns, so that
    a policy is never paid for failing first and repairing later.
    """
    alpha = config.first_turn_weight
    bonus = config.early_bonus[min(len(rewards), len(config.early_bonus)) - 1] if success else 0.0
    return alpha * rewards[0] + (1 - alpha) * max(rewards) + bonus
