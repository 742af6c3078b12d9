"""pass@k and avg@k of a task's samples, by the unbiased estimator of Chen et al. (2021, arXiv 2107.03374).

A sample is the first answer of a conversation. Left out are answers in which the compiler teacher seeded a fault, since
they are wrong on purpose, programs that people wrote, and answers on which the verifier could not decide.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from musadata.records import HUMAN, Candidate, ErrorClass


@dataclass(frozen=True)
class PassRate:
    """How many samples of a task there are, and how many were accepted."""

    samples: int
    passed: int

    @property
    def average(self) -> float | None:
        """avg@k, whatever k; None without samples."""
        return self.passed / self.samples if self.samples else None

    def at(self, k: int) -> float | None:
        """pass@k; None where there are fewer than k samples."""
        return pass_at_k(self.samples, self.passed, k) if 1 <= k <= self.samples else None

    @property
    def curve(self) -> tuple[float, ...]:
        """pass@1, pass@2, … up to the number of samples."""
        return tuple(pass_at_k(self.samples, self.passed, k) for k in range(1, self.samples + 1))


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """The probability that one of k samples passes that are drawn from all of them: 1 - C(n-c,k)/C(n,k).

    Raises:
        ValueError: not 1 <= k <= samples, or not 0 <= passed <= samples.
    """
    if not 1 <= k <= samples or not 0 <= passed <= samples:
        raise ValueError(f"pass@{k} of {passed} in {samples}")
    return 1 - math.comb(samples - passed, k) / math.comb(samples, k)


def is_sample(turn: int, fault: str, teacher: str, error_class: str | None) -> bool:
    """Whether a candidate counts."""
    return turn == 1 and not fault and teacher != HUMAN and not (error_class and ErrorClass(error_class).is_undecided)


def measure_pass_rate(candidates: Iterable[Candidate]) -> PassRate:
    """Of one task's candidates."""
    counted = [one for one in candidates if is_sample(one.turn, one.fault, one.teacher, one.error_class)]
    return PassRate(len(counted), sum(one.accepted for one in counted))


def average_rates(rates: Sequence[PassRate], ks: Sequence[int]) -> dict[str, object]:
    """Means over tasks: {"tasks", "samples", "passed", "avg_at_k", "pass_at_k": {k: mean}}.

    pass@k is absent unless each task has k samples: sampling ends early where tasks are easy, so a mean over the others
    alone would be too low, and one that takes the easy ones for passed too high.
    """
    found = [rate for rate in rates if rate.samples]
    least = min((rate.samples for rate in found), default=0)
    curve = {k: [pass_at_k(rate.samples, rate.passed, k) for rate in found] for k in ks if k <= least}
    return {
        "tasks": len(found),
        "samples": sum(rate.samples for rate in found),
        "passed": sum(rate.passed for rate in found),
        "avg_at_k": _mean([rate.passed / rate.samples for rate in found]),
        "pass_at_k": {str(k): _mean(some) for k, some in curve.items() if some},
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(math.fsum(values) / len(values), 4) if values else None
