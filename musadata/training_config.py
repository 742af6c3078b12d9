"""The part of the configuration that says what trainers are given. It is read as a part of `musadata.config`."""

from dataclasses import dataclass
from enum import StrEnum


class KeepBy(StrEnum):
    STRUCTURE = "structure"  # those that differ most; speed decides between nearly identical ones
    SPEED = "speed"  # the fastest, of those that were measured on a device


@dataclass(frozen=True)
class SamplingConfig:
    """What becomes of verified candidates.

    Attributes:
        turns: answers per conversation at the most.
        keep: accepted candidates kept per task; nearly identical ones count once.
        keep_by: what the choice goes by.
        speedup_weight: the paper's lambda: what each unit of speedup over eager PyTorch adds to an accepted answer's
            reward.
        speedup_cap: the paper's nu_max: the most units of speedup that count.
        first_turn_weight: PrimeEcho's alpha.
        early_bonus: bonus for success, per turn, earliest first.
    """

    turns: int = 3
    keep: int = 4
    keep_by: KeepBy = KeepBy.STRUCTURE
    speedup_weight: float = 0.5
    speedup_cap: float = 4.0
    first_turn_weight: float = 0.75
    early_bonus: tuple[float, ...] = (0.2, 0.1, 0.0)


@dataclass(frozen=True)
class RewardsConfig:
    """How the reward function judges answers during training, see `musadata.rewards`. Rows do not depend on these keys.

    Attributes:
        at_once: answers that are judged at a time; 0 takes one for every two cores.
        seconds: time that one answer may take; then it has no reward. The limits of `verifier` are reached before.
        batch_seconds: time that all answers of one call may take, those included that wait.
    """

    at_once: int = 0
    seconds: float = 300.0
    batch_seconds: float = 1800.0
