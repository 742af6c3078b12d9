"""Lowering of resizing: by nearest neighbours, by lines between neighbours, by cubic curves through four of them."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from musadata.compiler.ir.index_formulas import (
    ONE,
    ZERO,
    Index,
    as_index,
    divide,
    maximum,
    minimum,
    not_negative,
)
from musadata.compiler.ir.program import KERNEL_AXES, SPATIAL_AXES, Indices, Reduction, fixed
from musadata.compiler.ir.scalar import (
    Compare,
    Formula,
    Literal,
    Named,
    Scalar,
    apply,
    call,
    cast,
    choose,
    compute_type,
    count_as,
    literal,
    opaque,
)
from musadata.compiler.lowering.rules import Call, Results, Value, rule

_CHEAP = 3  # what costs more is not computed anew for each neighbour
_TAPS = 4  # of a cubic curve
_SIDES = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


@rule("upsample_nearest")
def _upsample_nearest(c: Call) -> Results:
    source, exact = c.value("input"), bool(c.number("exact"))
    factors: list[float | None] = [float(factor) for factor in c.list_of("scale_factors")]
    factors = factors or [None] * (len(source.shape) - 2)

    def body(index: Indices) -> Scalar:
        place = [
            _nearest(axis, size, out, scale, exact)
            for axis, size, out, scale in zip(index[2:], source.shape[2:], c.type.shape[2:], factors, strict=True)
        ]
        return source.load((*index[:2], *place))

    return c.new(body, 2 + source.cost)


def _nearest(axis: Index, size: Index, out: Index, scale: float | None, exact: bool) -> Index:
    """The input position that is nearest to an output position, by PyTorch's formula in single precision."""
    ratio, rest = divide(out, size)
    if rest == ZERO and (scale is None or ratio.constant == scale):
        return divide(axis, ratio)[0]
    sizes = [count_as(extent, "float32") for extent in (size, out)]
    factor = sizes[0] / sizes[1] if scale is None else literal(1.0 / scale, "float32")
    position = count_as(axis, "float32")
    if exact:
        position = position + 0.5
    place = cast(call("floor", "float32", position * factor), "int64")
    return minimum(opaque(place), size - 1)


@dataclass(frozen=True)
class _Scale:
    """How far neighbours of the result lie apart in the source, along an axis of one size and another in the result."""

    side: str
    size: Index
    out: Index
    factor: float | None
    align_corners: bool
    dtype: str

    def _step(self) -> Scalar:
        if self.align_corners and self.out == ONE:
            return literal(0, self.dtype)
        if self.align_corners:
            ends = [count_as(extent - 1, self.dtype) for extent in (self.size, self.out)]
            step = _quotient(*ends)
            many = Compare("bool", "<", ONE, self.out)
            return step if not_negative(self.out - 2) else choose(many, step, 0.0)
        if self.factor is not None and self.factor > 0:
            return literal(1.0 / self.factor, self.dtype)
        return _quotient(count_as(self.size, self.dtype), count_as(self.out, self.dtype))

    def position(self, axis: Index) -> Scalar:
        """Where in the source an element of the result lies."""
        step = self._step()
        if not isinstance(step, Literal):
            step = Named(self.dtype, f"scale_{self.side}", step)
        place = count_as(axis, self.dtype)
        return place * step if self.align_corners else (place + 0.5) * step - 0.5


def _quotient(one: Scalar, other: Scalar) -> Scalar:
    if isinstance(one, Literal) and isinstance(other, Literal) and other.value:
        return literal(float(np.dtype(one.dtype).type(one.value) / np.dtype(one.dtype).type(other.value)), one.dtype)
    return one / other


def _scales(c: Call, source: Value) -> list[_Scale]:
    sides = _SIDES[len(source.shape) - 2]
    factors: list[float | None] = [float(factor) for factor in c.list_of("scale_factors")]
    factors = factors or [None] * len(sides)
    aligned, dtype = bool(c.number("align_corners")), compute_type(source.dtype)
    return [
        _Scale(side, size, out, factor, aligned, dtype)
        for side, size, out, factor in zip(sides, source.shape[2:], c.type.shape[2:], factors, strict=True)
    ]


def _source(c: Call) -> Value:
    """What is resized; in memory, where computing an element for each of its neighbours would take too long."""
    source = c.value("input")
    if source.cost >= _CHEAP:
        c.program.materialize(source)
    return source


@rule("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def _upsample_linear(c: Call) -> Results:
    source = _source(c)
    scales = _scales(c, source)
    dtype = compute_type(source.dtype)

    def body(index: Indices) -> Scalar:
        ends, shares = [], []
        for scale, axis in zip(scales, index[2:], strict=True):
            both, share = _neighbours(scale, axis)
            ends.append(both)
            shares.append(share)
        values: list[Scalar] = []
        for corner in product(*(range(len(both)) for both in ends)):
            place = (both[end] for both, end in zip(ends, corner, strict=True))
            values.append(Named(dtype, f"v{''.join(map(str, corner))}", source.load((*index[:2], *place))))
        for share in shares[::-1]:
            if share is not None:
                pairs = zip(values[::2], values[1::2], strict=True)
                values = [_between(one, other, share) for one, other in pairs]
                names = {2: ("near", "far"), 4: ("row00", "row01", "row10", "row11")}.get(len(values), ("",))
                values = [Named(dtype, name, v) if name else v for name, v in zip(names, values, strict=True)]
        return values[0]

    return c.new(body, 5 * 2 ** len(scales))


def _neighbours(scale: _Scale, axis: Index) -> tuple[tuple[Index, ...], Scalar | None]:
    """The two places that an element lies between, and its share of the way from the first to the second; one place
    where there is nothing to go along."""
    dtype, side = scale.dtype, scale.side
    if scale.align_corners and scale.out == ONE:
        return (ZERO,), None
    position = scale.position(axis)
    if not scale.align_corners:
        position = apply("fmax", position, literal(0, dtype))
    position = Named(dtype, f"source_{side}", position)
    first = opaque(Named("int32", f"{side}0", cast(position, "int32")))  # below the size, as positions are
    second = opaque(Named("int32", f"{side}1", Formula("int32", minimum(first + 1, scale.size - 1))))
    return (first, second), Named(dtype, f"share_{side}", position - cast(Formula("int32", first), dtype))


def _between(one: Scalar, other: Scalar, share: Scalar) -> Scalar:
    rest = literal(1, share.dtype) - share
    return rest * one + share * other


@rule("upsample_bicubic2d")
def _upsample_bicubic(c: Call) -> Results:
    source = _source(c)
    scales = _scales(c, source)
    dtype = compute_type(source.dtype)

    def body(axes: Indices, loops: Indices) -> Scalar:
        places: list[Index] = []
        weights: list[Scalar] = []
        for scale, axis, tap in zip(scales, axes[2:], loops, strict=True):
            position = Named(dtype, f"source_{scale.side}", scale.position(axis))
            below = Named(dtype, f"below_{scale.side}", apply("floor", position))
            first = opaque(Named("int32", f"{scale.side}0", cast(below, "int32")))
            place = Formula("int32", minimum(maximum(first + tap - 1, ZERO), scale.size - 1))
            places.append(opaque(Named("int32", f"in_{scale.side}", place)))
            distance = Named(dtype, f"from_{scale.side}", position - below + 1.0 - count_as(tap, dtype))
            weights.append(Named(dtype, f"weight_{scale.side}", call("cubic_weight", dtype, apply("abs", distance))))
        return weights[0] * weights[1] * source.load((*axes[:2], *places))

    names = ("n", "c", *SPATIAL_AXES[2])
    reduction = Reduction("sum", fixed((as_index(_TAPS), as_index(_TAPS))), KERNEL_AXES[2])
    return c.program.reduce(c.node.name, c.type, names, reduction, body)
