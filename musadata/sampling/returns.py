"""The return of a conversation (PrimeEcho, MusaCoder, arXiv 2606.04847)."""

from collections.abc import Sequence

from musadata.config import SamplingConfig


def trajectory_return(rewards: Sequence[float | None], success: bool, config: SamplingConfig) -> float:
    """alpha * first + (1 - alpha) * best + early bonus.

    `rewards` holds one reward per turn, at least one, and None for a turn without a verdict, which counts neither for
    nor against the conversation; without any verdict the return is 0. The bonus goes to success only, more for earlier
    turns, so that a policy is never paid for failing first and repairing later.
    """
    judged = [reward for reward in rewards if reward is not None]
    if not judged:
        return 0.0
    alpha = config.first_turn_weight
    bonus = config.early_bonus[min(len(rewards), len(config.early_bonus)) - 1] if success else 0.0
    return alpha * judged[0] + (1 - alpha) * max(judged) + bonus
