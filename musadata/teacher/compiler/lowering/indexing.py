"""Lowering of operators that read at places which other tensors name."""

from __future__ import annotations

from musadata.teacher.compiler.errors import Unsupported
from musadata.teacher.compiler.graph import Reference
from musadata.teacher.compiler.index import Index
from musadata.teacher.compiler.lowering.rules import Call, Results, Value, broadcast, cost_of, rule
from musadata.teacher.compiler.program import Indices
from musadata.teacher.compiler.scalar import Choose, Formula, Scalar, cast, compute_type, literal, opaque
from musadata.teacher.compiler.scalar import call as operation


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


@rule("scatter", "scatter_add", "index_put", "scatter_reduce")
def _scatter(c: Call) -> Results:
    raise Unsupported(f"no lowering for aten.{c.node.op}")


@rule("masked_fill")
def _masked_fill(c: Call) -> Results:
    source, mask, dtype = c.value("self"), c.value("mask"), compute_type(c.type.dtype)

    def body(index: Indices) -> Scalar:
        fill = c.scalar(c.node.arguments["value"], index, c.type.shape, dtype)
        test = cast(mask.load(broadcast(index, mask.shape)), "bool")
        return Choose(dtype, test, fill, cast(source.load(broadcast(index, source.shape)), dtype))

    return c.new(body, 1 + cost_of(source, mask))
