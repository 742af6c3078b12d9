"""Variants of an input set's values, which detect shortcuts that are right for the usual values only.

A ReLU that returns its input passes for positive values, a variance computed as E[x²] − E[x]² for values around zero,
and all zeros for small ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from musadata.records import InputSpec

if TYPE_CHECKING:
    import torch

PLAIN, SCALED, SMALL, OFFSET, INFINITE = "plain", "scaled by -3", "scaled by 0.01", "offset", "partly infinite"
# exp() of large values overflows: detects a softmax that does not subtract the maximum. Values far from zero also
# detect a maximum that is rounded or starts with 0. They are only for functions that ignore a shift of all inputs, or
# follow it as a maximum does.
LARGE, FAR = "large", "large and far from zero"
SHIFTED = "shifted by one"  # never judged: shows which functions these are
# Equal values, zeros and halves: detect wrong rounding, comparisons, and choice among equal maxima. The second variant
# is for functions that are not finite at zero.
TIES, NONZERO_TIES = "halves, with ties and zeros", "halves, with ties"
BELOW = "below zero, with extremes last"  # detects a maximum that starts with 0 or leaves out the last value
_ORDERS = ((PLAIN, SCALED, OFFSET, SMALL), (PLAIN, SMALL, OFFSET, SCALED))
_LARGE = {"float64": 1000.0, "float32": 100.0, "float16": 30.0, "bfloat16": 100.0}
_EXTREME = 8.0  # times the usual size; its exponential is still finite
_LONG = 8  # shorter dimensions have no border, as most of them would be border
_OFFSETS = {"float64": 100.0, "float32": 100.0, "float16": 8.0, "bfloat16": 8.0}


DECLARED, SHAPES, STRIDED = "declared", "shapes", "strided"  # see `records.ConditionFact`
COPIED = "copied state"  # where parameters are copied from the reference by name
SWALLOWED = "swallowed"  # of an error that the candidate caught


@dataclass(frozen=True)
class InputSet:
    """One draw of inputs: which set of shapes, which variant, which seed."""

    shape: int
    variant: str
    seed: int


def condition_of(plan: InputSet) -> str:
    """The condition that an input set shows; see `records.ConditionFact`."""
    if plan.shape:
        return SHAPES
    return DECLARED if plan.variant == PLAIN else plan.variant


def plan_variants(shape: int, count: int) -> list[str]:
    """The variants of `count` input sets for the set of shapes with this index; the first is plain."""
    order = _ORDERS[shape % len(_ORDERS)]
    return [order[index % len(order)] for index in range(count)]


def can_be_large(specs: Sequence[InputSpec]) -> bool:
    """Whether any input has unbounded values."""
    return any(spec.kind == "normal" and spec.dtype in _LARGE for spec in specs)


def can_tie(specs: Sequence[InputSpec]) -> bool:
    """Whether any input has continuous values."""
    return any(spec.kind in ("normal", "uniform") and spec.dtype in _LARGE for spec in specs)


def apply_variant(specs: Sequence[InputSpec], values: Sequence[Any], variant: str) -> list[Any]:
    """The values changed within their specs: integers stay as they are, and values stay in their range."""
    from musadata.tracing.inputs import keep_structure

    return [keep_structure(spec, _change(spec, value, variant)) for spec, value in zip(specs, values, strict=True)]


def _change(spec: InputSpec, value: Any, variant: str) -> Any:
    if variant == INFINITE:
        return _with_infinities(value) if spec.kind == "normal" and value.dtype.is_floating_point else value
    if variant == PLAIN or spec.kind not in ("normal", "uniform") or not value.dtype.is_floating_point:
        return value
    if spec.kind == "uniform" and variant in (LARGE, FAR, SHIFTED):
        return value
    if spec.kind == "uniform":
        return _within_range(spec, value, variant).to(value.dtype)
    return _change_normal(spec, value, variant).to(value.dtype)


def _change_normal(spec: InputSpec, value: "torch.Tensor", variant: str) -> "torch.Tensor":
    """What tests signs and conditioning goes by the spec's mean and deviation. What tests overflow, rounding and ties
    is the same for all normal values, which have no bounds."""
    from musadata.tasks.normal_values import moments

    mean, deviation = moments(spec)
    is_standard = (mean, deviation) == (0.0, 1.0)
    normal = value if is_standard else (value.double() - mean) / deviation
    relative = {
        SCALED: lambda: normal * -3.0,
        SMALL: lambda: normal * 0.01,
        OFFSET: lambda: normal + _OFFSETS[spec.dtype],
    }
    absolute = {
        LARGE: lambda: normal * _LARGE[spec.dtype],
        FAR: lambda: normal * 3e3 - 1e5 if value.element_size() > 2 else normal * _LARGE[spec.dtype],
        SHIFTED: lambda: value + 1.0,
        TIES: lambda: _empty_first(_with_extremes(_in_halves(normal))),
        NONZERO_TIES: lambda: _with_extremes(normal.floor() + 0.5),
        BELOW: lambda: _last_are_extreme(-0.5 * normal.abs() - 0.25) * deviation,
    }
    if variant in relative and not is_standard:
        return relative[variant]() * deviation + mean
    return (relative | absolute)[variant]()


def _with_infinities(value: "torch.Tensor") -> "torch.Tensor":
    """One element in the first third becomes +inf, one in the last third -inf."""
    changed = value.clone()
    flat = changed.view(-1)
    if flat.numel() >= 8:
        flat[flat.numel() // 3] = float("inf")
        flat[flat.numel() - flat.numel() // 4] = float("-inf")
    return changed


def _in_halves(value: "torch.Tensor") -> "torch.Tensor":
    """Multiples of 1/2, and every third a multiple of 1/16, so that `round(4 * x)` has ties."""
    import torch

    fine = torch.arange(value.numel()).reshape(value.shape) % 3 == 2
    return torch.where(fine, (value * 16.0).round() / 16.0, (value * 2.0).round() / 2.0)


def _border(value: "torch.Tensor") -> "torch.Tensor":
    """True for the last values along each long dimension, and for the very last."""
    import torch

    border = torch.zeros(value.shape, dtype=torch.bool)
    for dimension, size in enumerate(value.shape):
        if size >= _LONG:
            border.select(dimension, size - 1).fill_(True)
    border.view(-1)[-1:] = True
    return border


def _with_extremes(value: "torch.Tensor") -> "torch.Tensor":
    """With large values at the borders, so that a mean of many values changes visibly without the last."""
    import torch

    large = torch.where(value == 0, torch.ones_like(value), value) * _EXTREME
    return torch.where(_border(value), large, value)


def _last_are_extreme(value: "torch.Tensor") -> "torch.Tensor":
    """With values at the borders that are alternately near zero and large; the very last is near zero."""
    import torch

    from_last = torch.zeros(value.shape, dtype=torch.int32)
    for dimension, size in enumerate(value.shape):
        from_last += torch.arange(size - 1, -1, -1).view(-1, *[1] * (value.dim() - dimension - 1))
    extreme = torch.where(from_last % 2 == 0, value / 32.0, value * _EXTREME)
    return torch.where(_border(value), extreme, value)


def _empty_first(value: "torch.Tensor") -> "torch.Tensor":
    """With zeros as the first of several rows or images: detects a division by its norm."""
    if value.dim() >= 2 and value.shape[0] >= 2:
        value[0] = 0.0
    return value


def _on_grid(spec: InputSpec, value: "torch.Tensor", variant: str) -> "torch.Tensor":
    """Rounded down to eighths of the range; in the middle of each eighth if the lower bound is excluded."""
    import torch

    step = (spec.high - spec.low) / 8.0
    moved = torch.floor((value.double() - spec.low) / step) * step + spec.low
    return moved + step / 2.0 if variant == NONZERO_TIES else moved


def _within_range(spec: InputSpec, value: "torch.Tensor", variant: str) -> "torch.Tensor":
    import torch

    wide = value.double()
    if variant in (TIES, NONZERO_TIES):
        moved = _on_grid(spec, value, variant)
    elif variant == BELOW:
        moved = spec.low + (wide - spec.low) * torch.where(_border(wide), 1.0, 0.5)
        moved.view(-1)[-1:] = spec.low + (spec.high - spec.low) * 0.9375
    elif variant == SCALED:
        moved = spec.high - (wide - spec.low)  # mirrored
    elif variant == OFFSET:
        moved = spec.high - (spec.high - wide) * 0.25
    elif spec.low < 0 < spec.high:
        moved = wide * 0.01
    else:
        moved = spec.low + (wide - spec.low) * 0.25
    moved[moved >= spec.high] = spec.low
    return moved.clamp(min=spec.low)
