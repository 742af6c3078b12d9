"""Lowering of reductions, softmax and norms: inner loops, and pointwise work on their results."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from musadata.compiler.ir.captured_graph import TensorType
from musadata.compiler.ir.index_formulas import ONE, Index, divide, product
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.compiler.ir.program import Indices, Reduction, Scanned, axis_names, fixed
from musadata.compiler.ir.scalar import (
    Formula,
    Scalar,
    apply,
    call,
    cast,
    choose,
    compute_type,
    count_as,
    literal,
)
from musadata.compiler.lowering.elementwise import HEAVY
from musadata.compiler.lowering.rules import Call, Results, Value, rule, without

Transform = Callable[[Scalar, Indices], Scalar]
INLINE_COST = 6  # an input that a norm or softmax reads several times is computed anew each time up to this cost


def reduce_over(
    c: Call, source: Value, dims: Sequence[int], kind: str, name: str, dtype: str, transform: Transform | None = None
) -> Value:
    """A reduction over `dims`, with those dimensions dropped. `transform` changes an element, given its whole index."""
    names, others = axis_names(len(source.shape)), [dim for dim in range(len(source.shape)) if dim not in dims]

    def body(axes: Indices, loops: Indices) -> Scalar:
        kept, along = iter(axes), iter(loops)
        index = tuple(next(along if dim in dims else kept) for dim in range(len(source.shape)))
        value = source.load(index)
        value = transform(value, index) if transform else value
        return value if kind.startswith("arg") else cast(value, compute_type(dtype))

    return c.program.reduce(
        name,
        TensorType(without(source.shape, dims), dtype),
        without(names, dims),
        Reduction(kind, fixed(without(source.shape, others)), without(names, others)),
        body,
    )


def restored(
    c: Call,
    reduced: Value,
    dims: Sequence[int],
    compute: Callable[[Scalar], Scalar] = lambda value: value,
    cost: int = 0,
) -> Value:
    """The (first) result: `compute` of each element of a reduction, with reduced dimensions put back where kept."""
    back = len(c.type.shape) != len(reduced.shape)

    return c.new(lambda index: compute(reduced.load(without(index, dims) if back else index)), cost)


def divided(value: Scalar, count: Index) -> Scalar:
    """A sum divided by how many there are."""
    return value / count_as(count, value.dtype)


@rule("sum", "prod", "amax", "amin", "any", "all")
def _reduce(c: Call) -> Results:
    kind = {"amax": "max", "amin": "min"}.get(c.operator, c.operator)
    source = c.value("self")
    dims = c.dimensions("dim", len(source.shape))
    dtype = c.type.dtype if kind in ("max", "min") else c.dtype
    reduced = reduce_over(c, source, dims, kind, c.node.name, dtype)
    return restored(c, reduced, dims)


@rule("max", "min")
def _max(c: Call) -> Results:
    kind, source = c.operator, c.value("self")
    if c.node.op.endswith(".other"):
        other = c.value("other")
        return c.new(
            lambda i: call(f"{kind}imum", c.dtype, source.load(i), other.load(i)), 1 + source.cost + other.cost
        )
    if not c.has("dim"):
        return reduce_over(c, source, range(len(source.shape)), kind, c.node.name, source.dtype)
    dims = (c.dimension("dim", len(source.shape)),)
    best = reduce_over(c, source, dims, kind, f"{c.node.name}_value", source.dtype)
    place = reduce_over(c, source, dims, f"arg{kind}", f"{c.node.name}_index", "int64")
    values = restored(c, best, dims)
    indices = restored(c, place, dims)
    assert c.node.types[1] is not None
    return values, Value(f"{c.node.name}_indices", c.node.types[1], indices.body)


@rule("argmax", "argmin")
def _argmax(c: Call) -> Results:
    source = c.value("self")
    dims = c.dimensions("dim", len(source.shape))
    reduced = reduce_over(c, source, dims, c.operator, c.node.name, "int64")
    return restored(c, reduced, dims)


@rule("mean")
def _mean(c: Call) -> Results:
    source = c.value("self")
    dims = c.dimensions("dim", len(source.shape))
    total = reduce_over(c, source, dims, "sum", f"{c.node.name}_sum", c.dtype)
    count = product(source.shape[dim] for dim in dims)
    return restored(c, total, dims, lambda value: divided(value, count), 1)


def moments(
    c: Call, source: Value, dims: Sequence[int], correction: float
) -> tuple[Value, Value, Callable[[Scalar], Scalar]]:
    """Mean, sum of squared distances from the mean (a second pass), both without `dims`, and variance from that sum."""
    dtype = compute_type(source.dtype)
    if source.cost > INLINE_COST:
        c.program.materialize(source)
    count = product(source.shape[dim] for dim in dims)
    total = reduce_over(c, source, dims, "sum", f"{c.node.name}_sum", dtype)
    mean_type = TensorType(total.shape, dtype)
    mean = Value(f"{c.node.name}_mean", mean_type, lambda index: divided(total.load(index), count), 1)
    if c.program.alike:
        c.program.materialize(mean, without(axis_names(len(source.shape)), dims))

    def squared(value: Scalar, index: Indices) -> Scalar:
        distance = call("sub", dtype, value, mean.load(without(index, dims)))
        return distance * distance

    squares = reduce_over(c, source, dims, "sum", f"{c.node.name}_squares", dtype, squared)

    def variance(squares: Scalar) -> Scalar:
        divisor = count_as(count, dtype)
        return squares / (divisor - correction if correction else divisor)

    return mean, squares, variance


@rule("var", "std", "var_mean", "std_mean")
def _var(c: Call) -> Results:
    source = c.value("self")
    dims = c.dimensions("dim", len(source.shape))
    correction = float(c.number("correction", 1) if "correction" in c.node.arguments else c.number("unbiased", True))
    mean, squares, variance = moments(c, source, dims, correction)

    def compute(value: Scalar) -> Scalar:
        found = variance(value)
        return apply("sqrt", found) if c.operator.startswith("std") else found

    spread = restored(c, squares, dims, compute, 2)
    return (spread, restored(c, mean, dims, cost=1)) if "mean" in c.operator else spread


@rule("_softmax", "_log_softmax", "_safe_softmax")
def _softmax(c: Call) -> Results:
    if not c.value("self").shape:
        raise Unsupported("softmax of a single number")
    source = c.operand("self", INLINE_COST)
    dim = c.dimension("dim", len(source.shape))
    body = softmax_of(c, source, dim, safe="safe" in c.operator, log="log" in c.operator)
    return c.new(body, 2 * HEAVY + source.cost)


def softmax_of(c: Call, source: Value, dim: int, *, safe: bool, log: bool = False) -> Callable[[Indices], Scalar]:
    """An element of the (logarithm of the) softmax along a dimension. A safe softmax is 0 where a row holds nothing but
    minus infinity, so its maximum keeps NaN."""
    dtype, name = c.dtype, c.node.name.strip("_")
    largest = reduce_over(c, source, (dim,), "max" if safe else "fast_max", f"{name}_max", dtype)

    def shifted(value: Scalar, index: Indices) -> Scalar:
        return cast(value, dtype) - largest.load(without(index, (dim,)))

    total = reduce_over(
        c, source, (dim,), "sum", f"{name}_sum", dtype, lambda v, index: call("exp", dtype, shifted(v, index))
    )

    def body(index: Indices) -> Scalar:
        value, sum_ = shifted(source.load(index), index), total.load(without(index, (dim,)))
        if log:
            return value - call("log", dtype, sum_)
        result = call("exp", dtype, value) / sum_
        if not safe:
            return result
        return choose(call("eq", "bool", largest.load(without(index, (dim,))), literal(-math.inf, dtype)), 0, result)

    return body


@rule("logsumexp")
def _logsumexp(c: Call) -> Results:
    source, dtype, name = c.operand("self", INLINE_COST), c.dtype, c.node.name
    dims = c.dimensions("dim", len(source.shape))
    largest = reduce_over(c, source, dims, "fast_max", f"{name}_max", dtype)  # the sum keeps NaN

    def shift(index: Indices) -> Scalar:
        value = largest.load(index)
        return choose(call("isinf", "bool", value), 0, value)

    shifted = Value(f"{name}_shift", largest.type, shift, 1)

    def term(value: Scalar, index: Indices) -> Scalar:
        return apply("exp", cast(value, dtype) - shifted.load(without(index, dims)))

    total = reduce_over(c, source, dims, "sum", f"{name}_sum", dtype, term)
    back = len(c.type.shape) != len(total.shape)

    def body(index: Indices) -> Scalar:
        kept = without(index, dims) if back else index
        return apply("log", total.load(kept)) + shifted.load(kept)

    return c.new(body, HEAVY)


@rule("native_layer_norm")
def _layer_norm(c: Call) -> Results:
    source = c.value("input")
    rank, inner = len(source.shape), len(c.sizes("normalized_shape"))
    dims = tuple(range(rank - inner, rank))
    return _normalised(c, source, dims, lambda index: index[: rank - inner], lambda index: index[rank - inner :])


@rule("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "native_batch_norm")
def _batch_norm(c: Call) -> Results:
    if c.node.arguments.get("training") is False:
        return _frozen_norm(c)
    source = c.value("input")
    dims = tuple(dim for dim in range(len(source.shape)) if dim != 1)
    return _normalised(c, source, dims, lambda index: index[1:2], lambda index: index[1:2])


def _normalised(
    c: Call,
    source: Value,
    dims: Sequence[int],
    group: Callable[[Indices], Indices],
    channel: Callable[[Indices], Indices],
) -> tuple[Value, None, None]:
    """(x - mean) / sqrt(variance + eps) * weight + bias; `group` and `channel` index statistics and weights."""
    mean, squares, variance = moments(c, source, dims, 0)

    def inverse(index: Indices) -> Scalar:
        return _inverse_root(c, variance(squares.load(index)))

    name = f"{c.node.name.strip('_')}_inverse_std"
    scale = Value(name, TensorType(squares.shape, c.dtype), inverse, HEAVY)
    if c.program.alike:
        c.program.materialize(scale, without(axis_names(len(source.shape)), dims))

    def body(index: Indices) -> Scalar:
        centred = call("sub", c.dtype, source.load(index), mean.load(group(index)))
        return affine(c, centred * scale.load(group(index)), channel(index))

    return c.new(body, 4 + HEAVY + source.cost), None, None


def _inverse_root(c: Call, variance: Scalar) -> Scalar:
    """1 / sqrt(variance + eps)."""
    return apply("rsqrt", variance + c.number("eps"))


def affine(c: Call, value: Scalar, index: Indices) -> Scalar:
    """The value times `weight` plus `bias`, where the operator has them."""
    weight, bias = c.optional("weight"), c.optional("bias")
    if weight is not None:
        value = value * cast(weight.load(index), value.dtype)
    return value if bias is None else value + cast(bias.load(index), value.dtype)


@rule("_native_batch_norm_legit_no_training")
def _frozen_norm(c: Call) -> Results:
    source, mean, variance = c.value("input"), c.value("running_mean"), c.value("running_var")

    def body(index: Indices) -> Scalar:
        channel = index[1:2]
        centred = call("sub", c.dtype, source.load(index), cast(mean.load(channel), c.dtype))
        return affine(c, centred * _inverse_root(c, cast(variance.load(channel), c.dtype)), channel)

    return c.new(body, 4 + HEAVY + source.cost), None, None


@rule("native_group_norm", "group_norm")
def _group_norm(c: Call) -> Results:
    source, groups = c.value("input"), c.size("group")
    channels = divide(source.shape[1], groups)[0]
    spatial = source.shape[2:]
    grouped_type = TensorType((source.shape[0], groups, channels, *spatial), source.dtype)
    grouped = Value(
        source.name,
        grouped_type,
        lambda i: source.load((i[0], i[1] * channels + i[2], *i[3:])),
        source.cost,
        viewed=source,
    )
    if source.cost > INLINE_COST:
        c.program.materialize(source)
        grouped.cost = 0
    dims = tuple(range(2, len(grouped_type.shape)))
    inner = replace(c, node=replace(c.node, types=(grouped_type,)))
    normalised = _normalised(inner, grouped, dims, lambda i: i[:2], lambda i: (i[1] * channels + i[2],))[0]

    def body(index: Indices) -> Scalar:
        group, channel = divide(index[1], channels)
        return normalised.body((index[0], group, channel, *index[2:]))

    result = c.new(body, 4 + HEAVY + source.cost)
    return (result, None, None) if c.operator == "native_group_norm" else result


@rule("linalg_vector_norm")
def _vector_norm(c: Call) -> Results:
    source, order = c.operand("self", INLINE_COST), float(c.number("ord", 2))
    dims = c.dimensions("dim", len(source.shape))
    total = reduce_over(
        c, source, dims, norm_kind(order), f"{c.node.name}_sum", c.dtype, lambda v, _: raised(cast(v, c.dtype), order)
    )
    return restored(c, total, dims, lambda value: rooted(value, order), HEAVY)


def norm_kind(order: float) -> str:
    """The reduction of a p-norm."""
    return {math.inf: "max", -math.inf: "min"}.get(order, "sum")


def raised(value: Scalar, order: float) -> Scalar:
    """|value| to the power that a norm sums up."""
    if order == 2:
        return value * value
    if order == 0:
        return cast(call("ne", "bool", value, literal(0, value.dtype)), value.dtype)
    size = apply("abs", value)
    return size if order in (1, math.inf, -math.inf) else apply("pow", size, literal(order, value.dtype))


def rooted(value: Scalar, order: float) -> Scalar:
    """The norm from the sum of powers."""
    if order == 2:
        return apply("sqrt", value)
    if order in (0, 1, math.inf, -math.inf):
        return value
    return apply("pow", value, literal(1 / order, value.dtype))


_SCANS = {"cumsum": "sum", "cumprod": "prod", "logcumsumexp": "logsumexp"}


@rule(*_SCANS)
def _cumulative(c: Call) -> Results:
    source = c.value("self")
    dim, kind = c.dimension("dim", len(source.shape)), _SCANS[c.operator]
    if not source.shape or source.shape[dim] == ONE:
        return c.new(source.load, source.cost)
    return _scanned(c, c.node.name, c.type, kind, dim, lambda index: cast(source.load(index), c.dtype))


def _scanned(c: Call, name: str, type: TensorType, kind: str, dim: int, body: Callable[[Indices], Scalar]) -> Value:
    return c.program.scan(name, type, axis_names(len(type.shape)), Scanned(kind, dim), body)


@rule("cummax", "cummin")
def _running_extreme(c: Call) -> Results:
    """The extreme so far, and the last place that held it: the largest place whose element was the extreme."""
    source, place = c.operand("self"), c.node.types[1]
    dim, kind, name = c.dimension("dim", len(source.shape)), c.operator.removeprefix("cum"), c.node.name
    assert place is not None
    if not source.shape or source.shape[dim] == ONE:
        return c.new(source.load, source.cost), Value(f"{name}_place", place, lambda index: literal(0, "int64"))
    best = _scanned(c, f"{name}_value", c.type, kind, dim, source.load)

    def position(index: Indices) -> Scalar:
        value = source.load(index)
        new = call("ge" if kind == "max" else "le", "bool", value, best.load(index))
        if value.dtype.startswith("float"):
            new = call("or", "bool", new, call("isnan", "bool", value))
        return choose(new, Formula("int64", index[dim]), 0)

    return best, _scanned(c, f"{name}_place", place, "max", dim, position)
