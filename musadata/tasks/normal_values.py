"""Normal values of any mean and deviation: how a spec holds the two, and how they are found in drawn values.

Normal values have no bounds, so kernels are judged on large ones and on values far from zero. Values such as
`torch.randn(...) * 3 + 1` are normal, too: the range in which they were seen is no bound.
"""

import math
from typing import TYPE_CHECKING

from musadata.records import InputSpec

if TYPE_CHECKING:
    import torch  # processes that only read specs do not hold it

_ENOUGH = 64  # with fewer values, a uniform distribution has tails, too
_TAIL = 2.0  # deviations from the mean: uniform values never reach them
_LEAST_KURTOSIS = 2.2  # 3 for a normal, 1.8 for a uniform distribution
_SIGMAS = 6.0  # how far a moment of a sample may be from that of the distribution
_FAR_FROM_BOUND = 2.5  # deviations: nearer to zero, values of one sign are bounded by it (`abs`, `exp`, `rand`)
_MOST_EQUAL = 200  # more of so many values at an extreme have been clamped there
_DIGITS = 6


def moments(spec: InputSpec) -> tuple[float, float]:
    """(mean, deviation) of a `normal` spec, whose `low` and `high` are one deviation from the mean; (0, 1) if both
    are 0.

    Raises:
        ValueError: there is no deviation.
    """
    if spec.low == spec.high == 0.0:
        return 0.0, 1.0
    if not spec.low < spec.high:
        raise ValueError(f"input {spec.name!r} is normal with the empty range [{spec.low}, {spec.high})")
    return _round((spec.low + spec.high) / 2.0), _round((spec.high - spec.low) / 2.0)


def bounds(mean: float, deviation: float) -> tuple[float, float]:
    """`low` and `high` of a `normal` spec."""
    return (0.0, 0.0) if (mean, deviation) == (0.0, 1.0) else (mean - deviation, mean + deviation)


def fit_normal(sample: "torch.Tensor") -> tuple[float, float] | None:
    """(mean, deviation) of finite values that look drawn from a normal distribution, zeros aside; None for others.

    `sample`: in float64, one dimension.
    """
    values = sample[sample != 0.0]  # parts of a matrix may be masked out
    if len(values) < _ENOUGH:
        return (0.0, 1.0) if _looks_standard(sample) else None
    count, mean, deviation = len(values), float(values.mean()), float(values.std())
    low, high = float(values.min()), float(values.max())
    if not (deviation > 0.0 and math.isfinite(deviation)):
        return None
    standard = (values - mean) / deviation
    kurtosis, skewness = float(standard.pow(4).mean()), float(standard.pow(3).mean())
    least = max(_LEAST_KURTOSIS, 3.0 - _SIGMAS * math.sqrt(24.0 / count))
    if kurtosis < least or abs(skewness) > max(0.1, _SIGMAS * math.sqrt(6.0 / count)):
        return None
    is_bounded = (low >= 0.0 or high <= 0.0) and abs(mean) < _FAR_FROM_BOUND * deviation
    is_clamped = max(int((values == edge).sum()) for edge in (low, high)) > 1 + count // _MOST_EQUAL
    if is_bounded or is_clamped or float(standard.abs().max()) < _TAIL:
        return None
    error = 3.0 * deviation / math.sqrt(count)
    plain_mean = 0.0 if abs(mean) <= error else _plain(mean, error)
    return plain_mean, _plain(deviation, error * math.sqrt(max(kurtosis - 1.0, 1.0)) / 2.0)


def _looks_standard(sample: "torch.Tensor") -> bool:
    """Mean near 0, deviation near 1, and either tails or too few values to tell."""
    low, deviation = float(sample.min()), float(sample.std())
    if not (abs(float(sample.mean())) < 0.5 and 0.5 < deviation < 2.0):
        return len(sample) < 8 and low < 0.0
    kurtosis = float(((sample - sample.mean()) / deviation).pow(4).mean())
    return low < 0.0 and kurtosis > _LEAST_KURTOSIS


def _plain(value: float, error: float) -> float:
    """The number with the fewest digits that is as near as that."""
    rounded = (float(f"{value:.{digits}g}") for digits in range(1, _DIGITS))
    return next((number for number in rounded if abs(number - value) <= error), _round(value))


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
