"""Variants of an input set's values, which detect shortcuts that are right for the usual values only.

A ReLU that returns its input passes for positive values, a variance computed as E[x²] − E[x]² for values around zero,
and all zeros for small ones. `_ROWS` has what each variant makes of the values of an input, by what they are.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from musadata.records import InputSpec
from musadata.tasks.normal_values import moments
from musadata.tracing.inputs import keep_structure, parse_literal
from musadata.verifier.protocol import variants

_LARGE = {torch.float64: 1000.0, torch.float32: 100.0, torch.float16: 30.0, torch.bfloat16: 100.0}
_OFFSETS = {torch.float64: 100.0, torch.float32: 100.0, torch.float16: 8.0, torch.bfloat16: 8.0}
_PERTURBABLE = ("normal", "uniform", "integers", "choice", "bool", "permutation")
_LOWER_BITS = {torch.float32: (torch.int32, 0x8000), torch.float64: (torch.int64, 1 << 44)}
_SMALLEST_USUAL = 0.05  # a constant that is smaller is redrawn as if it were 1
_EXTREME = 8.0  # times the usual size; its exponential is still finite
_LONG = 8  # shorter dimensions have no border, as most of them would be border
_OUTLYING = 8  # one of so many rows has an outlier
_AFTER_ELEMENT = (variants.PERMUTED, variants.NUDGED, variants.DRIFTED)
_WHOLE = ("literal", "integers")  # kinds of constants that are not negated
_STRIDES = (32, 256, 64, 128, 512, 1024)


def is_constant(spec: InputSpec) -> bool:
    """Whether its values were all the same when it was inferred, and others may be: its range is next to empty, it is
    a number of Python with a range, or one integer of a tensor, such as a step."""
    if spec.kind == "literal":
        return spec.low < spec.high
    if spec.kind == "integers":
        return spec.high - spec.low <= 1.0 and math.prod(spec.shape) == 1
    return spec.kind == "uniform" and spec.high - spec.low <= 2e-6 * max(1.0, abs(spec.low))


def is_real(spec: InputSpec) -> bool:
    """Whether it has continuous values."""
    return spec.kind in ("normal", "uniform") and getattr(torch, spec.dtype) in _LARGE


def apply_variant(specs: Sequence[InputSpec], values: Sequence[Any], variant: str, seed: int = 0) -> list[Any]:
    """The values changed within their specs: what a variant has no row for stays, and values stay in their range.
    `seed`: of the places that are changed, where only some are."""
    if variant in variants.PERTURBED:
        changed = _perturb(specs, values, variant, seed)
    else:
        pairs = enumerate(zip(specs, values, strict=True))
        changed = [
            _change(_Drawn(spec, value, seed + at, sum(map(is_real, specs[:at]))), variant)
            for at, (spec, value) in pairs
        ]
    return [keep_structure(spec, value) for spec, value in zip(specs, changed, strict=True)]


@dataclass(frozen=True)
class _Drawn:
    """The plain value of an argument; `number`: of the variant, where it has one, or of the real arguments before."""

    spec: InputSpec
    value: Any
    seed: int
    number: float = 0.0

    @property
    def standard(self) -> torch.Tensor:
        """Normal values with mean 0 and deviation 1."""
        mean, deviation = moments(self.spec)
        is_standard = (mean, deviation) == (0.0, 1.0)
        value: torch.Tensor = self.value
        return value if is_standard else (value.double() - mean) / deviation

    def moved(self, standard: torch.Tensor) -> torch.Tensor:
        """With the spec's mean and deviation again."""
        mean, deviation = moments(self.spec)
        return standard if (mean, deviation) == (0.0, 1.0) else standard * deviation + mean

    @property
    def places(self) -> random.Random:
        return random.Random(self.seed)


@dataclass(frozen=True)
class _Row:
    """What becomes of normal values, which have no bounds; of values within a range, unless it is left before they are
    cut off; of all real ones; of integers, choices and truth values; and of constants."""

    normal: Callable[[_Drawn], torch.Tensor] | None = None
    uniform: Callable[[_Drawn], torch.Tensor] | None = None
    real: Callable[[_Drawn], torch.Tensor] | None = None
    whole: Callable[[_Drawn], torch.Tensor] | None = None
    constant: Callable[[_Drawn], Any] | None = None


def _change(drawn: _Drawn, variant: str) -> Any:
    row = _ROWS.get(variant)
    if row is None:
        name = next((one for one in (variants.SCALED_BY, variants.OUTLIERS) if variant.startswith(one)), None)
        if name is None:
            return drawn.value
        row, drawn = _ROWS[name], replace(drawn, number=float(variant.removeprefix(name)))
    spec, value = drawn.spec, drawn.value
    if row.constant and is_constant(spec):
        return row.constant(drawn)
    if spec.kind in ("integers", "choice", "bool"):
        return row.whole(drawn) if row.whole else value
    if spec.kind not in ("normal", "uniform") or not value.dtype.is_floating_point:
        return value
    change = row.real or (row.normal if spec.kind == "normal" else row.uniform)
    if change is None:
        return value
    changed = change(drawn)
    if change is row.uniform:
        changed[changed >= spec.high] = spec.low
        changed = changed.clamp(min=spec.low)
    return changed.to(value.dtype)


def _perturb(specs: Sequence[InputSpec], values: Sequence[Any], variant: str, seed: int) -> list[Any]:
    """Two elements swapped; then one changed, in all inputs but the first if there are others; then a row of the first
    permuted; then all nudged; then all moved by one small step."""
    changed = list(values)
    chosen = [at for at, spec in enumerate(specs) if spec.kind in _PERTURBABLE and values[at].numel() > 1]
    for at in chosen:
        spec, places = specs[at], random.Random(f"{seed}/{at}")
        changed[at] = value = values[at].clone()
        flat = value.view(-1)
        one, other = (_draw_place(value, places, (0.75, 0.94)) for _ in range(2))
        flat[[one, other]] = flat[[other, one]]
        if variant != variants.SWAPPED and spec.kind != "permutation" and (at != chosen[0] or len(chosen) == 1):
            place = _draw_place(value, places, (0.125, 0.5))
            flat[place] = _another(spec, flat[place])
        if variant in _AFTER_ELEMENT and at == chosen[0]:
            rows = value.view(-1, value.shape[-1])
            row = places.randrange(len(rows))
            rows[row] = rows[row][places.sample(range(rows.shape[1]), rows.shape[1])]
        if variant in (variants.NUDGED, variants.DRIFTED) and is_real(spec):
            changed[at] = _nudge(spec, value)
        if variant == variants.DRIFTED and is_real(spec):
            changed[at] = _drift(spec, changed[at])
    return changed


def _nudge(spec: InputSpec, value: torch.Tensor) -> torch.Tensor:
    """Each element by a little, with the same upper bits."""
    if value.dtype not in _LOWER_BITS:
        return value
    whole, bit = _LOWER_BITS[value.dtype]
    moved = (value.contiguous().view(whole) ^ bit).view(value.dtype)
    return moved if spec.kind == "normal" else torch.where((moved >= spec.low) & (moved < spec.high), moved, value)


def _drift(spec: InputSpec, value: torch.Tensor) -> torch.Tensor:
    """All elements plus the same 1/2048 of their spread; those stay that would leave their range."""
    spread = moments(spec)[1] if spec.kind == "normal" else spec.high - spec.low
    moved = (value + spread * 2.0**-11).to(value.dtype)
    return moved if spec.kind == "normal" else torch.where(moved < spec.high, moved, value)


def _draw_place(value: torch.Tensor, places: random.Random, part: tuple[float, float]) -> int:
    """A flat index in a part of the tensor that is no multiple of a small number, as far as there is one."""
    count = value.numel()
    first, end = (int(share * count) for share in part)
    for _ in range(64):
        place = places.randrange(first, max(end, first + 1))
        if math.gcd(place, 210) == 1:
            return place
    return places.randrange(count)


def _another(spec: InputSpec, element: torch.Tensor) -> Any:
    """A value of the same kind, far from this one."""
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


def _redrawn(drawn: _Drawn) -> Any:
    """Of a usual size and of the constant's sign, none near to it: of one number with two seeds in a row, first above
    and then below, or the other way round."""
    spec, value, seed = drawn.spec, drawn.value, drawn.seed
    if spec.kind == "literal":
        return value * (0.625 if seed % 2 else 1.5)
    if spec.kind == "integers":  # the larger one needs more than a byte
        return value // 2 if seed % 2 else 32 * value + 257
    size = abs(spec.low) if _SMALLEST_USUAL <= abs(spec.low) <= 1.0 / _SMALLEST_USUAL else 1.0
    parts = torch.arange(value.numel()).reshape(value.shape) + seed % 4
    factors = torch.tensor([0.375, 1.875, 0.625, 1.5])[parts % 4]
    return (math.copysign(size, spec.low) * (factors + (seed >> 2) % 64 / 1024.0)).to(value.dtype)


def _slightly_larger(drawn: _Drawn) -> Any:
    """A real constant; an integer stays."""
    value = drawn.value
    is_whole = not value.dtype.is_floating_point if isinstance(value, torch.Tensor) else isinstance(value, int)
    return value if is_whole else value + value * 2.0**-9


def _in_one(drawn: _Drawn, best: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Most elements are the least or the largest: all of a mask, a histogram, or the rows that are read, is one."""
    changed: torch.Tensor = drawn.value.clone()
    if changed.numel():
        changed.view(-1)[changed.numel() // 8 :] = best(changed)
    return changed


def _in_upper_bits(drawn: _Drawn) -> torch.Tensor:
    """Integers of a wide range with zeros in all but their first twelve bits: a hash by the lower ones is one slot."""
    value, low = drawn.value, math.ceil(drawn.spec.low)
    bits = int(drawn.spec.high - drawn.spec.low).bit_length() - 12
    if drawn.spec.kind != "integers" or bits < 4:
        return value
    changed: torch.Tensor = ((value.long() - low) >> bits << bits) + low
    return changed.to(value.dtype)


def _with_special(drawn: _Drawn) -> torch.Tensor:
    """Integers with the bounds of their range, and with what `literal` spells, at some places each."""
    spec, changed = drawn.spec, drawn.value.clone()
    flat = changed.view(-1)
    special = [math.ceil(spec.low), math.ceil(spec.high) - 1, *(parse_literal(spec.literal) if spec.literal else ())]
    for at, one in enumerate(special if spec.kind == "integers" else ()):
        flat[min(2 * at + 1, flat.numel() - 1) :: 2 * len(special) + 1] = one
    return changed


Pattern = Callable[[torch.Tensor, random.Random], torch.Tensor]


def _by_rows(drawn: _Drawn, across: bool, patterns: Sequence[Pattern]) -> torch.Tensor:
    """Each pattern for every so manieth row. A pattern gets rows that rise."""
    value: torch.Tensor = drawn.value
    if value.dim() == 0 or value.numel() == 0:
        return value
    axis = value.dim() - 1
    if across and value.dim() > 1:
        axis = max(range(axis), key=lambda one: value.shape[one])
    rows = value.clone().movedim(axis, -1)
    flat, places = rows.reshape(-1, rows.shape[-1]), drawn.places
    rising, shift = flat.sort(1).values, places.randrange(len(patterns)) if len(flat) < len(patterns) else 0
    for at, pattern in enumerate(patterns):
        part = slice((at + shift) % len(patterns), None, len(patterns))
        if len(flat[part]):
            flat[part] = pattern(rising[part], places)
    return flat.reshape(rows.shape).movedim(-1, axis).contiguous()


def _clusters(rising: torch.Tensor, places: random.Random) -> torch.Tensor:
    """Neighbours in value are neighbours in place."""
    length = rising.shape[1]
    count = max(1, length // 8)
    order = torch.tensor(places.sample(range(count), count))
    whole = rising[:, : count * (length // count)].reshape(-1, count, length // count)[:, order]
    return torch.cat([whole.flatten(1), rising[:, count * (length // count) :]], 1)


_ORDERS: tuple[Pattern, ...] = (
    lambda rising, places: rising,
    lambda rising, places: rising.roll(places.randrange(rising.shape[1]), 1),  # the largest ones are side by side
    lambda rising, places: rising.flip(1),
    _clusters,
)


def _stripes(rising: torch.Tensor, places: random.Random) -> torch.Tensor:
    """The largest values are where a key of the place is the same: one key for every so manieth row."""
    length = rising.shape[1]
    place, changed = torch.arange(length), rising.clone()
    keys = [(place ^ (place >> 5) ^ (place >> 10)) & 31, *(place % stride for stride in _STRIDES if stride < length)]
    for at, key in enumerate(keys):
        mixed = torch.tensor(places.sample(range(length), length))
        in_stripe = (key == key[places.randrange(length)])[mixed]
        changed[at :: len(keys), mixed[in_stripe.to(torch.int8).argsort(stable=True)]] = rising[at :: len(keys)]
    return changed


def _peaks(rising: torch.Tensor, places: random.Random) -> torch.Tensor:
    """The largest value of each row is at another power of two, or first."""
    length = rising.shape[1]
    changed = rising[:, torch.tensor(places.sample(range(length), length))]
    powers = [0, *(1 << power for power in reversed(range((length - 1).bit_length())) if 1 << power < length)]
    rows = torch.arange(len(changed))
    at, now = torch.tensor(powers)[rows % len(powers)], changed.argmax(1)
    changed[rows, now] = changed[rows, at]
    changed[rows, at] = rising[:, -1]
    return changed


def _with_infinities(drawn: _Drawn) -> torch.Tensor:
    """One element in the first third becomes +inf, one in the last third -inf, and the first of the last row."""
    changed: torch.Tensor = drawn.value.clone()
    flat = changed.view(-1)
    if flat.numel() >= 8:
        flat[flat.numel() // 3] = math.inf
        flat[[flat.numel() - flat.numel() // 4, -changed.shape[-1]]] = -math.inf
    return changed


def _with_outliers(drawn: _Drawn) -> torch.Tensor:
    """The very first element, and one of every so manieth row, are larger by far; before these there is a small one."""
    changed, places = drawn.standard.double().clone(), drawn.places
    if changed.numel() < _LONG:
        return drawn.value
    rows = changed.view(-1, changed.shape[-1])
    for row in range(0, len(rows), _OUTLYING):
        at = places.randrange(max(1, rows.shape[1] - 1)) + 1 if row and rows.shape[1] > 1 else 0
        if at:
            rows[row, at - 1] /= drawn.number
        rows[row, at] = drawn.number * (1.0 + 0.5 * places.random()) * (1 if row == 0 else places.choice((1, -1)))
    return drawn.moved(changed)


def _in_halves(value: torch.Tensor) -> torch.Tensor:
    """Multiples of 1/2, and every third a multiple of 1/16, so that `round(4 * x)` has ties."""
    fine = torch.arange(value.numel()).reshape(value.shape) % 3 == 2
    return torch.where(fine, (value * 16.0).round() / 16.0, (value * 2.0).round() / 2.0)


def _border(value: torch.Tensor) -> torch.Tensor:
    """True for the last values along each long dimension, and for the very last."""
    border = torch.zeros(value.shape, dtype=torch.bool)
    for dimension, size in enumerate(value.shape):
        if size >= _LONG:
            border.select(dimension, size - 1).fill_(True)
    border.view(-1)[-1:] = True
    return border


def _with_extremes(value: torch.Tensor) -> torch.Tensor:
    """With large values at the borders, so that a mean of many values changes visibly without the last."""
    large = torch.where(value == 0, torch.ones_like(value), value) * _EXTREME
    return torch.where(_border(value), large, value)


def _last_are_extreme(value: torch.Tensor) -> torch.Tensor:
    """With values at the borders that are alternately near zero and large; the very last is near zero."""
    from_last = torch.zeros(value.shape, dtype=torch.int32)
    for dimension, size in enumerate(value.shape):
        from_last += torch.arange(size - 1, -1, -1).view(-1, *[1] * (value.dim() - dimension - 1))
    extreme = torch.where(from_last % 2 == 0, value / 32.0, value * _EXTREME)
    return torch.where(_border(value), extreme, value)


def _empty_first(value: torch.Tensor) -> torch.Tensor:
    """With zeros as the first of several rows or images: detects a division by its norm."""
    if value.dim() >= 2 and value.shape[0] >= 2:
        value[0] = 0.0
    return value


def _on_grid(drawn: _Drawn) -> torch.Tensor:
    """Rounded down to eighths of the range."""
    step = (drawn.spec.high - drawn.spec.low) / 8.0
    return torch.floor((drawn.value.double() - drawn.spec.low) / step) * step + drawn.spec.low


def _low_with_high_last(drawn: _Drawn) -> torch.Tensor:
    low, high, wide = drawn.spec.low, drawn.spec.high, drawn.value.double()
    moved = low + (wide - low) * torch.where(_border(wide), 1.0, 0.5)
    moved.view(-1)[-1:] = low + (high - low) * 0.9375
    return moved


def _nearer(drawn: _Drawn) -> torch.Tensor:
    """To zero, or to the lower bound."""
    low, high, wide = drawn.spec.low, drawn.spec.high, drawn.value.double()
    return wide * 0.01 if low < 0 < high else low + (wide - low) * 0.25


def _in_one_sign(drawn: _Drawn, values: torch.Tensor) -> torch.Tensor:
    """In half precision: positive ones, then negative ones, so that sums leave its range on the way to a mean."""
    if drawn.value.dtype is torch.float16:
        values = values.abs()
        values.view(-1)[values.numel() // 2 :].neg_()
    return values


def _far(drawn: _Drawn) -> torch.Tensor:
    value = drawn.value
    return drawn.standard * 3e3 - 1e5 if value.element_size() > 2 else drawn.standard * _LARGE[value.dtype]


# What tests signs and conditioning goes by a spec's mean and deviation. What tests overflow, rounding and ties is the
# same for all normal values.
_ROWS = {
    variants.SCALED: _Row(
        normal=lambda one: one.moved(one.standard * -3.0),
        uniform=lambda one: one.spec.high - (one.value.double() - one.spec.low),  # mirrored
    ),
    variants.SMALL: _Row(normal=lambda one: one.moved(one.standard * 0.01), uniform=_nearer),
    variants.OFFSET: _Row(
        normal=lambda one: one.moved(one.standard + _OFFSETS[one.value.dtype]),
        uniform=lambda one: one.spec.high - (one.spec.high - one.value.double()) * 0.25,
    ),
    variants.LARGE: _Row(normal=lambda one: _in_one_sign(one, one.standard * _LARGE[one.value.dtype])),
    variants.FAR: _Row(normal=_far),
    variants.SHIFTED: _Row(normal=lambda one: one.value + 1.0),
    variants.SCALED_BY: _Row(normal=lambda one: _in_one_sign(one, one.standard.double() * one.number)),
    variants.OUTLIERS: _Row(normal=_with_outliers),
    variants.TIES: _Row(
        normal=lambda one: _empty_first(_with_extremes(_in_halves(one.standard))),
        uniform=_on_grid,
    ),
    variants.NONZERO_TIES: _Row(
        normal=lambda one: _with_extremes(one.standard.floor() + 0.5),
        uniform=lambda one: _on_grid(one) + (one.spec.high - one.spec.low) / 16.0,  # the lower bound is excluded
    ),
    variants.BELOW: _Row(
        normal=lambda one: _last_are_extreme(-0.5 * one.standard.abs() - 0.25) * moments(one.spec)[1],
        uniform=_low_with_high_last,
    ),
    variants.OPPOSED: _Row(
        normal=lambda one: (-1.0) ** one.number * (0.5 * one.standard.abs() + 0.25) * moments(one.spec)[1]
    ),
    variants.INFINITE: _Row(normal=_with_infinities),
    variants.ORDERED: _Row(
        real=lambda one: _by_rows(one, False, _ORDERS), whole=lambda one: _in_one(one, torch.Tensor.amin)
    ),
    variants.ORDERED_ACROSS: _Row(
        real=lambda one: _by_rows(one, True, _ORDERS), whole=lambda one: _in_one(one, torch.Tensor.amax)
    ),
    variants.STRIPED: _Row(real=lambda one: _by_rows(one, False, (_stripes, _peaks)), whole=_in_upper_bits),
    variants.STRIPED_ACROSS: _Row(real=lambda one: _by_rows(one, True, (_stripes, _peaks))),
    variants.REDRAWN: _Row(constant=_redrawn),
    variants.NEGATED: _Row(constant=lambda one: one.value if one.spec.kind in _WHOLE else -_redrawn(one)),
    variants.ZEROED: _Row(constant=lambda one: one.value if one.spec.kind == "literal" else 0 * one.value),
    variants.NEARLY: _Row(constant=_slightly_larger),
    variants.WIDE: _Row(whole=_with_special),
}
