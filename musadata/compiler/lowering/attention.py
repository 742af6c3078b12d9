"""Attention: lowering of the whole operator, and joining a product, a softmax and a second product to one loop.

The scores are never in memory then: a kernel goes along the keys in tiles and rescales what it has summed up whenever a
row's maximum grows (Milakov and Gimelshein, 2018; Dao et al., "FlashAttention", 2022).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from musadata.compiler.ir.captured_graph import TensorType
from musadata.compiler.ir.index_formulas import ONE, Index, Variable, divide, of, product
from musadata.compiler.ir.program import Contraction, Indices, Loop, Reduction, axis_names, fixed
from musadata.compiler.ir.scalar import (
    Attended,
    Buffer,
    Choose,
    Compare,
    Literal,
    Load,
    Local,
    Scalar,
    apply,
    cast,
    choose,
    count_as,
    literal,
    plain,
    same,
)
from musadata.compiler.ir.scalar import Call as Operation
from musadata.compiler.lowering.inlining import read_loops
from musadata.compiler.lowering.loop_points import variables_of
from musadata.compiler.lowering.reduction import softmax_of
from musadata.compiler.lowering.rewriting import replace_loads
from musadata.compiler.lowering.rules import Call, Results, Value, broadcast, real, rule

WIDEST = 256  # columns of the values: a block has 128 of them, and each further block computes the scores again
_MOST_INLINE = 3  # operands of a product that cost more are kept in memory
_BATCH_NAMES = {1: ("b",), 2: ("n", "h")}


@rule("scaled_dot_product_attention")
def _attention(c: Call) -> Results:
    """softmax(scale * query @ keyᵀ + mask) @ value, as two products and what is between them."""
    query, key, value = (c.operand(name, _MOST_INLINE) for name in ("query", "key", "value"))
    batch = len(query.shape) - 2
    names = (*_BATCH_NAMES.get(batch, axis_names(batch)), "row", "col")
    shape = (*query.shape[:-1], key.shape[-2])

    def shared(index: Indices, source: Value) -> Indices:
        """The batch of a query's keys: with grouped heads, several heads of queries have one head of keys."""
        if not batch or source.shape[batch - 1] == query.shape[batch - 1]:
            return index[:batch]
        group = divide(query.shape[batch - 1], source.shape[batch - 1])[0]
        return (*index[: batch - 1], divide(index[batch - 1], group)[0])

    products = _product(
        c,
        f"{c.node.name}_scores",
        TensorType(shape, c.dtype),
        names,
        (query, lambda index, k: (*index[:-1], k)),
        (key, lambda index, k: (*shared(index, key), index[-1], k)),
    )
    scores = Value(f"{c.node.name}_masked", products.type, lambda i: _masked(c, products.load(i), i), 2)
    weights = Value(f"{c.node.name}_weights", products.type, softmax_of(c, scores, batch + 1, safe=True), 8)
    c.program.materialize(weights)
    attended = _product(
        c,
        c.node.name,
        TensorType(c.type.shape, c.dtype),
        names,
        (weights, lambda index, k: (*index[:-1], k)),
        (value, lambda index, k: (*shared(index, value), k, index[-1])),
    )
    return c.new(attended.load, 0, viewed=attended)


def _product(
    c: Call,
    name: str,
    type: TensorType,
    names: tuple[str, ...],
    left: tuple[Value, Callable[[Indices, Index], Indices]],
    right: tuple[Value, Callable[[Indices, Index], Indices]],
) -> Value:
    """The sum over `k`, the left operand's last dimension, of products; each operand has its index for (axes, k)."""
    batch = len(type.shape) - 2
    left_at, right_at = (
        lambda axes, loops, value=value, at=at: cast(value.load(at(axes, loops[0])), c.dtype)
        for value, at in (left, right)
    )
    return c.program.reduce(
        name,
        type,
        names,
        Reduction("sum", fixed(left[0].shape[-1:]), ("k",)),
        lambda axes, loops: left_at(axes, loops) * right_at(axes, loops),
        Contraction(tuple(range(batch)), (batch,), left_at, right_at),
    )


def _masked(c: Call, product: Scalar, index: Indices) -> Scalar:
    """A score: the product of a query and a key, scaled, and minus infinity where the mask leaves it out."""
    scale, width = c.node.arguments["scale"], c.value("query").shape[-1]
    if scale is not None:
        score = product * real(scale, c.dtype)
    elif width.constant is not None:
        score = product * (1 / math.sqrt(width.constant or 1))
    else:
        score = product * apply("rsqrt", count_as(width, c.dtype))
    mask = c.optional("attn_mask")
    if mask is not None:
        element = mask.load(broadcast(index, mask.shape))
        added = choose(element, literal(0, c.dtype), -math.inf) if mask.dtype == "bool" else cast(element, c.dtype)
        score = score + added  # as PyTorch does: an infinite score stays visible where it is masked
    return choose(Compare("bool", "<=", index[-1], index[-2]), score, -math.inf) if c.number("is_causal") else score


def join_attention(loops: Sequence[Loop], returned: set[Buffer], sizes: Mapping[str, int]) -> list[Loop]:
    """The loops, with one in place of those of a product, a softmax of it and a product with the softmax, where nothing
    else reads the scores and the values have at most `WIDEST` columns at these sizes."""
    known = list(loops)
    for loop in loops:
        joined = _join(loop, {one.buffer: one for one in known})
        if joined is None:
            continue
        attended, scores = joined
        left = read_loops([attended if one is loop else one for one in known], returned)
        if scores not in left and product(columns_of(attended)).evaluate(sizes) <= WIDEST:
            known = left
    return known


def columns_of(loop: Loop) -> Indices:
    """The sizes of the columns of the values."""
    assert loop.contraction is not None
    return loop.contraction.parts(loop.shape)[2]


@dataclass(frozen=True)
class _Softmax:
    """The weight of a key: the softmax of `score` along the keys. `product` is the load of `made`'s result in it."""

    score: Scalar
    product: Load
    made: Loop
    safe: bool


def _join(loop: Loop, loops: Mapping[Buffer, Loop]) -> tuple[Loop, Loop] | None:
    """The loop over queries that does all of an attention if this one multiplies weights and values, and the loop of
    the scores that it makes superfluous."""
    if loop.contraction is None or loop.reduction is None or len(loop.reduction.names) != 1:
        return None
    axes, _ = variables_of(loop.names, loop.shape)
    (keys,) = loop.reduction.extents(axes)
    found = None if keys.variables or keys == ONE else _softmax_at(loop, axes, of(Variable("j", keys)), loops)
    if found is None:
        return None
    (depth,) = found.made.reduction.extents(found.product.index)  # type: ignore[union-attr]
    if depth.variables or depth == ONE:
        return None

    def body(axes: Indices, inner: Indices) -> Scalar:
        key, place = inner
        weight = _softmax_at(loop, axes, key, loops)
        assert weight is not None and loop.contraction is not None
        operands = _operands(weight, axes, loop, key, place)
        assert operands is not None
        score = replace_loads(weight.score, lambda load: _SCORE[load.dtype] if same(load, weight.product) else None, {})
        element = loop.contraction.right(axes, (key,))
        return Attended(element.dtype, *operands, score, element, weight.safe)

    return replace(loop, body=body, reduction=Reduction("attention", fixed((keys, depth)), ("j", "d"))), found.made


_SCORE = {dtype: Local(dtype, "score") for dtype in ("float32", "float64")}


def _operands(weight: _Softmax, axes: Indices, loop: Loop, key: Index, place: Index) -> tuple[Scalar, Scalar] | None:
    """An element of the query and one of the key, if the scores are a product of queries and keys."""
    assert weight.made.contraction is not None and loop.contraction is not None
    contraction, inner = weight.made.contraction, (place,)
    query, keyed = contraction.left(weight.product.index, inner), contraction.right(weight.product.index, inner)
    if key.variables & query.variables:
        query, keyed = keyed, query
    _, rows, cols = loop.contraction.parts(axes)
    own = {v for index in (*rows, *cols) for v in index.variables}
    return None if key.variables & query.variables or own & keyed.variables else (query, keyed)


def _softmax_at(loop: Loop, axes: Indices, key: Index, loops: Mapping[Buffer, Loop]) -> _Softmax | None:
    """The weight that a loop multiplies values with, if it is a softmax along the keys."""
    assert loop.contraction is not None
    weight, safe = plain(_spelled(loop.contraction.left(axes, (key,)), loops)), False
    match weight:
        case Choose(condition=Operation(operation="eq", arguments=(_, Literal(value=limit))), yes=Literal(value=0)):
            weight, safe = plain(weight.no), limit == -math.inf
    match weight:
        case Operation(operation="div", arguments=(above, total)):
            shifted, summed = _exponent(above), _exponent(_reduced(total, ("sum",), key, loops))
        case _:
            return None
    if shifted is None or summed is None or not all(map(same, shifted, summed)):
        return None
    score, top = shifted
    largest = _reduced(top, ("max", "fast_max"), key, loops)
    if largest is None or not same(largest, score):
        return None
    for load in score.loads:
        made = loops.get(load.buffer)
        if made is not None and made.contraction is not None and made.reduction is not None:
            found = _Softmax(score, load, made, safe)
            extents = made.reduction.extents(load.index)
            if len(extents) == 1 and _operands(found, axes, loop, key, of(Variable("d", extents[0]))):
                return found
    return None


def _exponent(value: Scalar | None) -> tuple[Scalar, Scalar] | None:
    """The two sides of the difference that an exponential is taken of."""
    match value:
        case Operation(operation="exp", arguments=(exponent,)):
            match plain(exponent):
                case Operation(operation="sub", arguments=(one, other)):
                    return plain(one), plain(other)
    return None


def _reduced(value: Scalar, kinds: Sequence[str], key: Index, loops: Mapping[Buffer, Loop]) -> Scalar | None:
    """What a reduction along the keys combines, where the value is a result of one."""
    value = plain(value)
    loop = loops.get(value.buffer) if isinstance(value, Load) and not value.variables & key.variables else None
    if loop is None or loop.reduction is None or loop.reduction.kind not in kinds or not isinstance(value, Load):
        return None
    extents = loop.reduction.extents(value.index)
    if len(extents) != 1 or key.variable is None or extents[0] != key.variable.extent:
        return None
    return plain(_spelled(loop.body(value.index, (key,)), loops))


def _spelled(value: Scalar, loops: Mapping[Buffer, Loop]) -> Scalar:
    """The value with pointwise loops written out where they work on results of reductions."""

    def written(load: Load) -> Scalar | None:
        loop = loops.get(load.buffer)
        if loop is None or not loop.is_pointwise:
            return None
        inside = _spelled(loop.body(load.index, ()), loops)
        made = (loops.get(one.buffer) for one in inside.loads)
        return inside if any(one is not None and one.reduction for one in made) else None

    return replace_loads(value, written, {})
