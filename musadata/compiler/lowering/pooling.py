"""Lowering of pooling: windows of the input."""

import functools
import operator
from collections.abc import Callable

from musadata.compiler.ir.captured_graph import TensorType
from musadata.compiler.ir.index_formulas import ONE, ZERO, Index, divide, maximum, minimum, product
from musadata.compiler.ir.program import KERNEL_AXES, SPATIAL_AXES, Indices, Reduction, fixed
from musadata.compiler.ir.scalar import (
    Compare,
    Formula,
    Scalar,
    cast,
    compute_type,
    guarded,
    opaque,
    within,
)
from musadata.compiler.lowering.layout import flatten, unflatten
from musadata.compiler.lowering.rules import Call, Results, Value, rule

_LEAD = {0: (), 1: ("c",), 2: ("n", "c")}


def _axis_names(lead: int, rank: int) -> tuple[str, ...]:
    """Names of a result's axes: `lead` that are kept, and `rank` that windows move along."""
    return (*_LEAD.get(lead, tuple(f"d{i}" for i in range(lead))), *SPATIAL_AXES[rank])


def _source(c: Call) -> Value:
    return c.operand("input" if "input" in c.node.arguments else "self")


def _rank(c: Call) -> int:
    """The number of dimensions that windows extend over: 2 for `max_pool2d`."""
    return int(c.operator.removesuffix("_with_indices")[-2])


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool2d", "max_pool3d")
def _max_pool(c: Call) -> Results:
    source, rank = _source(c), _rank(c)
    window = _Window(c, source, rank)
    lowest = float("-inf") if c.dtype.startswith("float") else -(2**31)

    def body(axes: Indices, loops: Indices) -> Scalar:
        place, needed = window.place(axes, loops)
        return guarded(needed, source.load(place), lowest)

    name = f"max_pool{rank}d"
    best = window.reduce("max", name, TensorType(c.type.shape, source.dtype), body)
    if not c.operator.endswith("with_indices"):
        return best
    kind = c.node.types[1]
    if kind is None or not c.node.arguments.get("wants_indices"):
        return best, None
    offsets = window.reduce("argmax", f"{name}_position", TensorType(c.type.shape, "int64"), body)
    return best, Value(f"{c.node.name}_indices", kind, lambda index: _position(window, offsets, index), 4)


def _position(window: "_Window", offsets: Value, index: Indices) -> Scalar:
    """The flat position in the input's plane of a window's maximum, from its position in the window."""
    place, _ = window.place(index, unflatten(opaque(offsets.load(index)), window.kernel))
    return Formula("int64", flatten(place[-window.rank :], window.source.shape[-window.rank :]))


class _Window:
    """Windows of a fixed size over the last `rank` dimensions."""

    def __init__(self, c: Call, source: Value, rank: int):
        self.c, self.source, self.rank = c, source, rank
        self.kernel = c.sizes("kernel_size", rank)
        self.stride = c.sizes("stride", rank) or self.kernel
        self.padding = c.sizes("padding", rank) or (ZERO,) * rank
        self.dilation = c.sizes("dilation", rank) or (ONE,) * rank
        self.lead = len(source.shape) - rank
        ceil = bool(c.number("ceil_mode", False))
        self.inside = [not ceil and pad == ZERO for pad in self.padding]

    def place(self, axes: Indices, loops: Indices) -> tuple[Indices, list[Scalar]]:
        place, needed = list(axes[: self.lead]), list[Scalar]()
        for d in range(self.rank):
            at = axes[self.lead + d] * self.stride[d] - self.padding[d] + loops[d] * self.dilation[d]
            place.append(at)
            if not self.inside[d]:
                needed += within(at, self.source.shape[self.lead + d])
        return tuple(place), needed

    def reduce(self, kind: str, name: str, type: TensorType, body: Callable[[Indices, Indices], Scalar]) -> Value:
        reduction = Reduction(kind, fixed(self.kernel), KERNEL_AXES[self.rank])
        return self.c.program.reduce(name, type, _axis_names(self.lead, self.rank), reduction, body)


@rule("col2im")
def _fold(c: Call) -> Results:
    """Every pixel is the sum of its values in all windows that contain it."""
    source = _source(c)
    kernel, dilation, padding, stride = (c.sizes(name, 2) for name in ("kernel_size", "dilation", "padding", "stride"))
    counts = [
        divide(c.type.shape[d - 2] + padding[d] * 2 - dilation[d] * (kernel[d] - 1) - 1, stride[d])[0] + 1
        for d in (0, 1)
    ]

    def body(axes: Indices, loops: Indices) -> Scalar:
        windows, needed = [], []
        for d in (0, 1):
            reach = axes[d - 2] + padding[d] - loops[d] * dilation[d]
            window, rest = divide(reach, stride[d])
            windows.append(window)
            needed += [Compare("bool", ">=", reach, ZERO), Compare("bool", "<", window, counts[d])]
            if rest != ZERO:
                needed.append(Compare("bool", "==", rest, ZERO))
        row = (axes[-3] * kernel[0] + loops[0]) * kernel[1] + loops[1]
        place = (*axes[:-3], row, windows[0] * counts[1] + windows[1])
        return guarded(needed, cast(source.load(place), c.dtype), 0)

    names = (*_LEAD[len(c.type.shape) - 2], "h", "w")
    return c.program.reduce(c.node.name, c.type, names, Reduction("sum", fixed(kernel), KERNEL_AXES[2]), body)


@rule("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(c: Call) -> Results:
    source = _source(c)
    window = _Window(c, source, _rank(c))

    def body(axes: Indices, loops: Indices) -> Scalar:
        place, needed = window.place(axes, loops)
        return guarded(needed, cast(source.load(place), c.dtype), 0)

    total = window.reduce("sum", f"{c.node.name}_sum", TensorType(c.type.shape, c.dtype), body)
    return c.new(lambda index: total.load(index) / _product_of(_window_counts(c, window, index), c.dtype), 1)


def _product_of(factors: list[Index], dtype: str) -> Scalar:
    """A product of extents as a floating-point number; kept as factors, because multiplied out it cannot be read."""
    varying: list[Scalar] = [Formula("int64", factor) for factor in factors if factor.variables]
    fixed_part = product(factor for factor in factors if not factor.variables)
    if not varying or fixed_part != ONE:
        varying.append(Formula("int64", fixed_part))
    return cast(functools.reduce(operator.mul, varying), dtype)


def _window_counts(c: Call, window: _Window, index: Indices) -> list[Index]:
    """What a window's sum is divided by, as factors."""
    if c.has("divisor_override"):
        return [c.size("divisor_override")]
    padded = bool(c.number("count_include_pad", True))
    counts = []
    for d in range(window.rank):
        size, pad, kernel = window.source.shape[window.lead + d], window.padding[d], window.kernel[d]
        if window.inside[d] or (padded and not c.number("ceil_mode", False)):
            counts.append(kernel)
            continue
        start = index[window.lead + d] * window.stride[d] - pad
        end = minimum(start + kernel, size + pad)
        counts.append(end - start if padded else minimum(end, size) - maximum(start, ZERO))
    return counts


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_adaptive_avg_pool1d", "adaptive_avg_pool1d")
def _adaptive_avg_pool(c: Call) -> Results:
    source, rank = _source(c), _rank(c)
    total = _adaptive(c, source, rank, "sum", f"{c.node.name.strip('_')}_sum", c.dtype)
    return c.new(lambda index: total.load(index) / _product_of(_cells(c, source, rank, index)[1], c.dtype), 1)


@rule(*(f"adaptive_max{pool}{rank}d" for pool in ("", "_pool") for rank in (1, 2, 3)))
def _adaptive_max_pool(c: Call) -> Results:
    source = _source(c)
    largest = _adaptive(c, source, _rank(c), "max", c.node.name, source.dtype)
    return (largest, None) if "pool" in c.operator else largest


def _cells(c: Call, source: Value, rank: int, axes: Indices) -> tuple[list[Index], list[Index]]:
    """Start and extent of each adaptive window."""
    starts, extents = [], []
    for d in range(-rank, 0):
        size, out = source.shape[d], c.type.shape[d]
        whole, rest = divide(size, out)
        if rest == ZERO:
            starts.append(axes[d] * whole)
            extents.append(whole)
            continue
        start = divide(axes[d] * size, out)[0]
        starts.append(start)
        extents.append(divide((axes[d] + 1) * size + out - 1, out)[0] - start)
    return starts, extents


def _adaptive(c: Call, source: Value, rank: int, kind: str, name: str, dtype: str) -> Value:
    lead = len(source.shape) - rank

    def body(axes: Indices, loops: Indices) -> Scalar:
        starts, _ = _cells(c, source, rank, axes)
        place = tuple(start + loop for start, loop in zip(starts, loops, strict=True))
        return cast(source.load((*axes[:lead], *place)), compute_type(dtype))

    reduction = Reduction(kind, lambda axes: tuple(_cells(c, source, rank, axes)[1]), KERNEL_AXES[rank])
    return c.program.reduce(name, TensorType(c.type.shape, dtype), _axis_names(lead, rank), reduction, body)
