"""Variants of an input set's values, which detect shortcuts that are right for the usual values only.

A ReLU that returns its input passes for positive values, a variance computed as E[x²] − E[x]² for values around zero,
and all zeros for small ones.
"""

import math
import random
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
# Of the plain values of the same seed, each changed a little more than the one before: detect results that are kept by
# a fingerprint of the inputs. A swap keeps all sums, a permuted row its own.
SWAPPED, ELEMENT = "the same but for two swapped elements", "the same but for these and another element"
PERMUTED = "the same but for these and a permuted row"
PERTURBED = (SWAPPED, ELEMENT, PERMUTED)
# Rows that rise or fall, have their largest values side by side, or values that come in clusters; along the last
# dimension, and along another one: detect a choice among values that only looks at few of a stripe.
ORDERED, ORDERED_ACROSS = "in order or clusters", "in order or clusters across rows"
REDRAWN = "plain, and constants have other values"
# Of the state: parameters that are small or alike at first, scaled up or turned, as no clamp expects.
RAISED, TURNED = "plain, and lone parameters are large", "plain, and lone parameters have the other sign"
STATES = (RAISED, TURNED)
BEYOND = "beyond each clamp"  # stands for scaled inputs that reach what the reference clamps to
SCALED_BY = "scaled by "  # and a number
TINY = f"{SCALED_BY}1e-05"  # detects small values that are taken for 0
_ORDERS = ((PLAIN, SCALED, OFFSET, SMALL), (PLAIN, SMALL, OFFSET, SCALED))
TIMED = frozenset(_ORDERS[0])  # on others a candidate may take another time
_LARGE = {"float64": 1000.0, "float32": 100.0, "float16": 30.0, "bfloat16": 100.0}
_PERTURBABLE = ("normal", "uniform", "integers", "choice", "bool", "permutation")
_SMALLEST_USUAL = 0.05  # a constant that is smaller is redrawn as if it were 1
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


def is_constant(spec: InputSpec) -> bool:
    """Whether its values were all the same when it was inferred, and others may be: its range is next to empty, or it
    is a number of Python with a range."""
    if spec.kind == "literal":
        return spec.low < spec.high
    return spec.kind == "uniform" and spec.high - spec.low <= 2e-6 * max(1.0, abs(spec.low))


def apply_variant(specs: Sequence[InputSpec], values: Sequence[Any], variant: str, seed: int = 0) -> list[Any]:
    """The values changed within their specs: integers stay as they are, but for one, and values stay in their range.
    `seed`: of the places that are changed, where only some are."""
    from musadata.tracing.inputs import keep_structure

    if variant in PERTURBED:
        changed = _perturb(specs, values, variant, seed)
    else:
        pairs = enumerate(zip(specs, values, strict=True))
        changed = [_change(spec, value, variant, seed + at) for at, (spec, value) in pairs]
    return [keep_structure(spec, value) for spec, value in zip(specs, changed, strict=True)]


def _perturb(specs: Sequence[InputSpec], values: Sequence[Any], variant: str, seed: int) -> list[Any]:
    """Two elements swapped; then one changed, in all inputs but the first if there are others; then a row of the first
    permuted."""
    changed = list(values)
    chosen = [at for at, spec in enumerate(specs) if spec.kind in _PERTURBABLE and values[at].numel() > 1]
    for at in chosen:
        spec, places = specs[at], random.Random(f"{seed}/{at}")
        changed[at] = value = values[at].clone()
        flat = value.view(-1)
        one, other = (_draw_place(value, places, (0.75, 0.94)) for _ in range(2))
        flat[[one, other]] = flat[[other, one]]
        if variant != SWAPPED and spec.kind != "permutation" and (at != chosen[0] or len(chosen) == 1):
            place = _draw_place(value, places, (0.125, 0.5))
            flat[place] = _another(spec, flat[place])
        if variant == PERMUTED and at == chosen[0]:
            rows = value.view(-1, value.shape[-1])
            row = places.randrange(len(rows))
            rows[row] = rows[row][places.sample(range(rows.shape[1]), rows.shape[1])]
    return changed


def _draw_place(value: "torch.Tensor", places: random.Random, part: tuple[float, float]) -> int:
    """A flat index in a part of the tensor that is no multiple of a small number, as far as there is one."""
    count = value.numel()
    first, end = (int(share * count) for share in part)
    for _ in range(64):
        place = places.randrange(first, max(end, first + 1))
        if math.gcd(place, 210) == 1:
            return place
    return places.randrange(count)


def _another(spec: InputSpec, element: "torch.Tensor") -> Any:
    """A value of the same kind, far from this one."""
    from musadata.tasks.normal_values import moments
    from musadata.tracing.inputs import parse_literal

    if spec.kind == "bool":
        return not bool(element)
    if spec.kind == "choice":
        return next((one for one in parse_literal(spec.literal) if one != element.item()), element.item())
    if spec.kind == "integers":
        low, high = math.ceil(spec.low), math.ceil(spec.high)
        return low + (int(element) - low + max(1, (high - low) // 2)) % (high - low)
    if spec.kind == "uniform":
        middle = (spec.low + spec.high) / 2.0
        return spec.low + (spec.high - spec.low) * (0.0625 if element.item() > middle else 0.9375)
    mean, deviation = moments(spec)
    return mean + deviation * (-4.0 if element.real.item() > mean + 2.0 * deviation else 4.0)


def _change(spec: InputSpec, value: Any, variant: str, seed: int) -> Any:
    if variant == REDRAWN:
        if spec.kind == "literal":
            return value * (0.625 if seed % 2 else 1.5) if is_constant(spec) else value
        return _redrawn(spec, value, seed) if is_constant(spec) and value.dtype.is_floating_point else value
    if variant in (ORDERED, ORDERED_ACROSS):
        is_real = spec.kind in ("normal", "uniform") and value.dtype.is_floating_point
        if spec.kind in ("integers", "choice", "bool") and variant == ORDERED_ACROSS:
            return _in_one(value, random.Random(seed))
        return _in_order(spec, value, variant, random.Random(seed)) if is_real else value
    if variant == INFINITE:
        return _with_infinities(value) if spec.kind == "normal" and value.dtype.is_floating_point else value
    if variant in (PLAIN, *STATES) or spec.kind not in ("normal", "uniform") or not value.dtype.is_floating_point:
        return value
    if spec.kind == "uniform" and variant in (LARGE, FAR, SHIFTED):
        return value
    if spec.kind == "uniform":
        return _within_range(spec, value, variant).to(value.dtype)
    return _change_normal(spec, value, variant).to(value.dtype)


def _redrawn(spec: InputSpec, value: "torch.Tensor", seed: int) -> "torch.Tensor":
    """Values of a usual size and of the constant's sign, none of them near to it."""
    import torch

    size = abs(spec.low) if _SMALLEST_USUAL <= abs(spec.low) <= 1.0 / _SMALLEST_USUAL else 1.0
    parts = torch.arange(value.numel()).reshape(value.shape) + seed % 4
    factors = torch.tensor([0.375, 1.875, 0.625, 1.5])[parts % 4]
    return (math.copysign(size, spec.low) * (factors + (seed >> 2) % 64 / 1024.0)).to(value.dtype)


def _in_one(value: "torch.Tensor", places: random.Random) -> "torch.Tensor":
    """Most elements are one of them: all of a histogram, or of the rows that are read, is in one place."""
    changed = value.clone().view(-1)
    changed[changed.numel() // 8 :] = changed[places.randrange(max(1, changed.numel()))].clone()
    return changed.view(value.shape)


def _in_order(spec: InputSpec, value: "torch.Tensor", variant: str, places: random.Random) -> "torch.Tensor":
    """One row after the other rises, rises from a drawn place on, falls, or consists of clusters."""
    import torch

    if value.dim() == 0 or value.numel() == 0:
        return value
    axis = value.dim() - 1
    if variant == ORDERED_ACROSS and value.dim() > 1:
        axis = max(range(axis), key=lambda one: value.shape[one])
    changed = value.clone()
    rows = changed.movedim(axis, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    length, rising = flat.shape[1], flat.sort(1).values
    start = places.randrange(length)
    shift = places.randrange(4) if len(flat) < 4 else 0
    for pattern in range(4):
        part = slice((pattern + shift) % 4, None, 4)
        if pattern == 0:
            flat[part] = rising[part]
        elif pattern == 1:  # the largest ones are side by side at a drawn place
            flat[part] = rising[part].roll(start, 1)
        elif pattern == 2:
            flat[part] = rising[part].flip(1)
        else:  # neighbours in value are neighbours in place
            count = max(1, length // 8)
            order = torch.tensor(places.sample(range(count), count))
            whole = rising[part][:, : count * (length // count)].reshape(-1, count, length // count)[:, order]
            flat[part] = torch.cat([whole.flatten(1), rising[part][:, count * (length // count) :]], 1)
    return flat.reshape(rows.shape).movedim(-1, axis).contiguous()


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
    if variant.startswith(SCALED_BY) and variant not in relative:
        return normal * float(variant.removeprefix(SCALED_BY))
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
