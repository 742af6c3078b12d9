"""Lowering of operators that read at places which other tensors name."""

from __future__ import annotations

from musadata.teacher.compiler.ir.captured_graph import Reference, TensorType
from musadata.teacher.compiler.ir.index_formulas import Index
from musadata.teacher.compiler.ir.lowering_errors import Unsupported
from musadata.teacher.compiler.ir.program import Indices, Reduction, axis_names, fixed
from musadata.teacher.compiler.ir.scalar import (
    Choose,
    Compare,
    Formula,
    Named,
    Scalar,
    cast,
    compute_type,
    guarded,
    literal,
    opaque,
    within,
)
from musadata.teacher.compiler.ir.scalar import call as operation
from musadata.teacher.compiler.lowering.rules import Call, Results, Value, broadcast, cost_of, rule


def position(value: Scalar, size: Index, *, may_be_negative: bool) -> Index:
    """A loaded index as part of an index formula; negative ones count from the end."""
    value = cast(value, "int64")
    if not may_be_negative:
        return opaque(value)
    wrapped = operation("add", "int64", value, cast(Formula("int64", size), "int64"))
    negative = operation("lt", "bool", value, literal(0, "int64"))
    return opaque(Choose("int64", negative, wrapped, value))


@rule("embedding")
def _embedding(c: Call) -> Results:
    weight, indices = c.value("weight"), c.value("indices")
    rank = len(indices.shape)

    def body(index: Indices) -> Scalar:
        row = position(indices.load(index[:rank]), weight.shape[0], may_be_negative=False)
        return weight.load((row, *index[rank:]))

    return c.new(body, 1 + cost_of(weight, indices))


@rule("index_select")
def _index_select(c: Call) -> Results:
    source, chosen = c.value("self"), c.value("index")
    dim = c.dimension("dim", len(source.shape))

    def body(index: Indices) -> Scalar:
        place = position(chosen.load(index[dim : dim + 1]), source.shape[dim], may_be_negative=False)
        return source.load((*index[:dim], place, *index[dim + 1 :]))

    return c.new(body, 1 + cost_of(source, chosen))


@rule("gather")
def _gather(c: Call) -> Results:
    source, chosen = c.value("self"), c.value("index")
    dim = c.dimension("dim", len(source.shape))

    def body(index: Indices) -> Scalar:
        place = position(chosen.load(index), source.shape[dim], may_be_negative=False)
        return source.load((*index[:dim], place, *index[dim + 1 :]))

    return c.new(body, 1 + cost_of(source, chosen))


@rule("index", "_unsafe_index")
def _index(c: Call) -> Results:
    source = c.value("self")
    given = [c.resolve(item) if isinstance(item, Reference) else None for item in c.list_of("indices")]
    given += [None] * (len(source.shape) - len(given))
    chosen = {dim: value for dim, value in enumerate(given) if value is not None}
    if any(value.dtype == "bool" for value in chosen.values()):
        raise Unsupported("indexing by a mask")
    dims = sorted(chosen)
    width = max(len(value.shape) for value in chosen.values())
    # aten puts the indexed dimensions where they were if they are neighbours, and in front otherwise.
    start = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0

    def body(index: Indices) -> Scalar:
        block, others = index[start : start + width], iter((*index[:start], *index[start + width :]))
        place = []
        for dim, size in enumerate(source.shape):
            if dim not in chosen:
                place.append(next(others))
                continue
            value = chosen[dim].load(broadcast(block, chosen[dim].shape))
            place.append(position(value, size, may_be_negative=_may_be_negative(chosen[dim])))
        return source.load(tuple(place))

    return c.new(body, 2 + cost_of(source, *chosen.values()))


def _may_be_negative(value: Value) -> bool:
    """Indices that were computed from positions never are; those that come from outside may be."""
    return value.buffer is not None and value.buffer.role in ("argument", "state")


@rule("scatter_add")
def _scatter_add(c: Call) -> Results:
    """Every element of the result looks for what is added to it: more reading than with atomics, and always the same
    sum."""
    start, chosen, added = c.value("self"), c.value("index"), c.value("src")
    for operand in (chosen, added):
        if operand.cost:
            c.program.realise(operand)
    rank, dtype = len(start.shape), compute_type(c.type.dtype)
    dim = c.dimension("dim", rank)

    def body(axes: Indices, loops: Indices) -> Scalar:
        place = (*axes[:dim], loops[0], *axes[dim + 1 :])
        # The indices may cover less than the tensor in the other dimensions.
        covered = [test for d in range(rank) if d != dim for test in within(axes[d], chosen.shape[d])]
        meant = operation("eq", "bool", cast(chosen.load(place), "int64"), Formula("int64", axes[dim]))
        return guarded([*covered, meant], cast(added.load(place), dtype), 0)

    total = c.program.reduce(
        f"{c.node.name}_sum",
        TensorType(start.shape, dtype),
        axis_names(rank),
        Reduction("sum", fixed((chosen.shape[dim],)), ("k",)),
        body,
    )
    return c.new(
        lambda index: operation("add", dtype, cast(start.load(index), dtype), total.load(index)), 1 + start.cost
    )


@rule("topk", "sort")
def _ordered(c: Call) -> Results:
    """By ranks: an element's place in the order is the number of elements that go before it."""
    source = c.value("self")
    rank = len(source.shape)
    dim, sorts = c.dimension("dim", rank, -1), c.node.op.startswith("sort")
    if not rank:
        raise Unsupported("the order of a single number")
    descending = bool(c.number("descending", False) if sorts else c.number("largest", True))
    if source.cost:
        c.program.realise(source)

    def at(axes: Indices, position: Index) -> Indices:
        return (*axes[:dim], position, *axes[dim + 1 :])

    def goes_before(axes: Indices, loops: Indices) -> Scalar:
        own, other = source.load(axes), source.load(at(axes, loops[0]))
        own, other = Named(own.dtype, "own", own), Named(other.dtype, "other", other)
        first, second = (other, own) if descending else (own, other)
        goes_first = Named("bool", "goes_first", _larger(first, second))
        same = Named("bool", "same", _neither_larger(own, other))
        tie = operation("and", "bool", same, Compare("bool", "<", loops[0], axes[dim]))
        return cast(operation("or", "bool", goes_first, tie), "int64")

    name, names = c.node.name, axis_names(rank)
    loop = Reduction("sum", fixed((source.shape[dim],)), ("k",))
    ranks = c.program.reduce(f"{name}_rank", TensorType(source.shape, "int64"), names, loop, goes_before)
    results: list[Value | None] = []
    for part, kind in zip(("values", "indices"), c.node.types, strict=True):
        assert kind is not None
        dtype = compute_type(kind.dtype)

        def found(axes: Indices, loops: Indices, part: str = part, dtype: str = dtype) -> Scalar:
            ranked = operation("eq", "bool", ranks.load(at(axes, loops[0])), Formula("int64", axes[dim]))
            element = source.load(at(axes, loops[0])) if part == "values" else Formula("int64", loops[0])
            return Choose(dtype, ranked, cast(element, dtype), literal(0, dtype))

        pick = Reduction("sum", fixed((source.shape[dim],)), ("k",))
        results.append(c.program.reduce(f"{name}_{part}", kind, names, pick, found))
    return tuple(results)


def _larger(one: Scalar, other: Scalar) -> Scalar:
    """one > other, where NaN is larger than any number."""
    larger = operation("gt", "bool", one, other)
    if not one.dtype.startswith("float"):
        return larger
    only = operation("and", "bool", _is_nan(one), operation("not", "bool", _is_nan(other)))
    return operation("or", "bool", larger, only)


def _neither_larger(one: Scalar, other: Scalar) -> Scalar:
    same = operation("eq", "bool", one, other)
    if not one.dtype.startswith("float"):
        return same
    return operation("or", "bool", same, operation("and", "bool", _is_nan(one), _is_nan(other)))


def _is_nan(value: Scalar) -> Scalar:
    return operation("isnan", "bool", value)


@rule("masked_fill")
def _masked_fill(c: Call) -> Results:
    source, mask, dtype = c.value("self"), c.value("mask"), compute_type(c.type.dtype)

    def body(index: Indices) -> Scalar:
        fill = c.scalar(c.node.arguments["value"], index, c.type.shape, dtype)
        test = cast(mask.load(broadcast(index, mask.shape)), "bool")
        return Choose(dtype, test, fill, cast(source.load(broadcast(index, source.shape)), dtype))

    return c.new(body, 1 + cost_of(source, mask))
