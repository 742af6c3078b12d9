"""The part of the configuration that says what trainers are given. It is read as a part of `musadata.config`."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from musadata.bounds import Within


class KeepBy(StrEnum):
    STRUCTURE = "structure"  # those that differ most; speed decides between nearly identical ones
    SPEED = "speed"  # the fastest, of those that were measured on a device


class OnOutage(StrEnum):
    MASK = "mask"  # no reward, in the trainer's own way: it is out of its group's mean
    RAISE = "raise"  # an error that ends the training


@dataclass(frozen=True)
class SamplingConfig:
    """What becomes of verified candidates.

    Attributes:
        turns: answers per conversation at the most.
        agree: samples after which a task is asked no more if all were accepted and are nearly identical; 0 never stops.
            The compiler teacher and `batch` always give all `teacher.samples`, and no more.
        most_samples: samples per task at the most, where few pass. Tasks with fewer than four `teacher.samples` get no
            more.
        few_passed: share of accepted samples below which twice as many are asked for; 0 never asks for more.
        keep: accepted candidates kept per task; nearly identical ones count once.
        keep_by: what the choice goes by.
        speedup_weight: the paper's lambda: what each unit of speedup over eager PyTorch adds to an accepted answer's
            reward.
        speedup_cap: the paper's nu_max: the most units of speedup that count.
        first_turn_weight: PrimeEcho's alpha.
        early_bonus: bonus for success, per turn, earliest first.
        retry_size: tasks that may wait for a retry in a corpus, because no answer to them passed; the ones that came
            first leave for those that come last. 0 for none.
        retry_probability: that a waiting task is tried again in a round that `--retry-buffer` begins.
        retry_tries: rounds after which a task leaves that was not solved in them.
    """

    turns: Annotated[int, Within(1, 3)] = 3
    agree: Annotated[int, Within(0, 1000)] = 4
    most_samples: Annotated[int, Within(1, 1000)] = 16
    few_passed: Annotated[float, Within(0, 1)] = 0.25
    keep: Annotated[int, Within(1, 1000)] = 4
    keep_by: KeepBy = KeepBy.STRUCTURE
    speedup_weight: Annotated[float, Within(0)] = 0.5
    speedup_cap: Annotated[float, Within(0)] = 4.0
    first_turn_weight: Annotated[float, Within(0, 1)] = 0.75
    early_bonus: tuple[float, ...] = (0.2, 0.1, 0.0)
    retry_size: Annotated[int, Within(0)] = 1024
    retry_probability: Annotated[float, Within(0, 1)] = 1.0
    retry_tries: Annotated[int, Within(1, 1000)] = 2


@dataclass(frozen=True)
class ProfilingConfig:
    """Rows that teach to read a kernel's counters, which the emulator counts, whatever backend judges.

    Attributes:
        share: of the tasks, of which an accepted candidate is profiled; 0 for none.
        accesses: of threads that are counted in a call at the most; launches beyond them are not profiled.
    """

    share: Annotated[float, Within(0.0, 1.0)] = 0.5
    accesses: Annotated[int, Within(1, 10**9)] = 2_000_000


@dataclass(frozen=True)
class PortsConfig:
    """Accepted candidates in the form for MUSA.

    Attributes:
        per_task: how many are ported at the most, those first that were kept; 0 for none.
    """

    per_task: Annotated[int, Within(0, 100)] = 16


@dataclass(frozen=True)
class RewardsConfig:
    """How the reward function judges answers during training, see `musadata.rewards`. Rows do not depend on these keys.

    Attributes:
        policy: what is refused of what was found, in place of `verifier.policy`; see docs/policies.md.
        at_once: answers that are judged at a time; 0 takes one for every two cores, or 64 with a service.
        seconds: time that one answer may take; then it has no reward. The limits of `verifier` are reached before.
        batch_seconds: time that all answers of one call may take, those included that wait.
        service: address of a service that judges (`musadata serve`), in place of this process; the environment variable
            MUSADATA_SERVICE goes before it.
        outage: what an answer gives that the machine, or the service, keeps from a verdict.
    """

    policy: str = "paper"
    at_once: Annotated[int, Within(0, 4096)] = 0
    seconds: Annotated[float, Within(0.1)] = 300.0
    batch_seconds: Annotated[float, Within(0.1)] = 1800.0
    service: str = ""
    outage: OnOutage = OnOutage.MASK


@dataclass(frozen=True)
class MixingConfig:
    """How often a trainer should see a row, see `musadata.sampling.mixing`. Rows do not depend on these keys.

    Attributes:
        strength: how much operator families count in which fewer answers pass; 0 for not at all.
        least: smallest weight of a row; 1 is the average.
        most: largest weight of a row.
        families: target shares of the families of `sft`.
        operator_families: target shares of operator families, in place of measured weakness.
    """

    strength: Annotated[float, Within(0, 10)] = 1.0
    least: Annotated[float, Within(0.01, 1)] = 0.25
    most: Annotated[float, Within(1, 100)] = 4.0
    families: dict[str, float] = field(default_factory=dict, hash=False)
    operator_families: dict[str, float] = field(default_factory=dict, hash=False)
