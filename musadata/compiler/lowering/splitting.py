"""Long reductions with few results, split over blocks: a kernel for the parts, and one that joins what they leave.

Sums of a product's parts stay float ("split-K"); added up in a fixed order, they are the same in every run. Attention
of few queries splits its keys (Dao et al., "Flash-Decoding", 2023).
"""

import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import prod

from musadata.compiler.ir.index_formulas import ZERO, Index, Opaque, Variable, as_index, divide, minimum, of, product
from musadata.compiler.ir.program import Contraction, Indices, Loop, Reduction, fixed
from musadata.compiler.ir.scalar import (
    Attended,
    Buffer,
    Load,
    Named,
    Scalar,
    apply,
    call,
    choose,
    compute_type,
    literal,
)
from musadata.compiler.lowering.fusion import PARTS_AXIS
from musadata.compiler.lowering.layout import flatten, unflatten
from musadata.compiler.lowering.loop_points import variables_of
from musadata.compiler.lowering.rewriting import substitute_in
from musadata.compiler.lowering.rules import replaced

SHARE, LEAST_ELEMENTS = 8192, 1024  # elements of a part: 32 for each of 256 threads, or fewer where parts are few
FEW_RESULTS = 64  # with more, a block for each result keeps a GPU busy enough
LONG_ROW = 1 << 18  # elements: shorter rows take one block less time than a second launch
SCATTERED_ROW = 1 << 14  # elements that indices select: each load waits for memory, and one block has few under way
COLUMNS, LONG_COLUMN = 32, 1 << 13  # that a block goes along beside each other; rows that take it longer than a launch
COLUMN_GRID = 1056  # blocks of such columns that fill a GPU: eight for each multiprocessor
LEAST_ROWS = 512  # of a part: several threads share a column then
TILE = 128  # rows and columns of a product that a block computes, where there are so many
MOST_TILES = 33  # of a product: with more, smaller ones keep a large GPU's multiprocessors busy
FULL_GRID = 264  # two blocks for each multiprocessor
FEW_LINES, THREAD_COLUMNS = 16, 1024  # with so few rows, two blocks have so many columns, or the other way round
FRAGMENT_COLUMNS = 64  # of a block, where operands of half types go to tensor cores
SHORT_PART = 256  # elements of a row that a block of its own is kept busy by
LEAST_SHARE = 256  # of the depth: for a shorter part, writing and adding up a tile's sums takes longer than making them
LEAST_DEPTH = 2048  # of a product: what a shallower one gains is about what a second launch takes
FEW_QUERIES, ATTENTION_GRID = 16, 528  # of a block that attends; four blocks for each multiprocessor
LEAST_KEYS, MANY_KEYS = 256, 1024  # of a part; for fewer in all, a second launch takes what their parts gain
_PARTS = ("float32", "float64", "int64", "int32", "bool")  # types of sums that a block can share
_IDENTITIES = {"sum": 0, "prod": 1, "any": False, "all": True}
_FLOAT_IDENTITIES = {"max": -math.inf, "fast_max": -math.inf, "min": math.inf}


def split_long_reductions(loops: Sequence[Loop], sizes: Mapping[str, int], *, alike: bool = False) -> list[Loop]:
    """The loops, with two in place of each that reduces long rows to few results at these sizes; if `alike`, only of
    reductions that are all long where they do the same, so that layers share their kernels."""
    found: list[Loop] = []
    plain = [loop for loop in loops if loop.reduction is not None and loop.contraction is None and not alike]
    scattered = map(_extents, filter(_selects, plain))
    least = dict.fromkeys(scattered, SCATTERED_ROW)  # for a count beside such a sum as well
    whole = {_kind(loop) for loop in loops if alike and not _is_long(loop, sizes, least)}
    for loop in loops:
        share, rows = (0, 0) if alike else (_share_of_depth(loop, sizes), _rows_of_part(loop, sizes))
        if share:
            found += _split(loop, share)
        elif rows:
            steps = [extent.evaluate(sizes) for extent in _extents(loop)]
            found += _split(loop, rows, steps.index(max(steps)))
        elif not _is_long(loop, sizes, least) or _kind(loop) in whole:
            found.append(loop)
        elif not alike and _has_rows(loop, sizes):
            found += _split(_flat(loop, len(_extents(loop)) - 1), 1)
        else:
            found += _split(_flat(loop, len(_extents(loop))), _share(loop, sizes))
    return found


def _kind(loop: Loop) -> tuple[str, tuple[str, ...]]:
    """What reductions of layers that are alike have in common."""
    return re.sub(r"\d+", "", loop.buffer.name), loop.names


def _extents(loop: Loop) -> Indices:
    assert loop.reduction is not None
    return loop.reduction.extents(variables_of(loop.names, loop.shape)[0])


def _share_of_depth(loop: Loop, sizes: Mapping[str, int]) -> int:
    """How much of a product's depth each part has, if it has so few tiles at these sizes that they leave a GPU idle; a
    power of two, so that parts start at whole vectors. 0 if one part is better."""
    if loop.reduction is None or loop.contraction is None or loop.attends or loop.steps or loop.spread:
        return 0
    extents = _extents(loop)
    if len(extents) != 1 or extents[0].variables or not loop.buffer.dtype.startswith(("float", "bfloat")):
        return 0
    batch, rows, cols = (product(part).evaluate(sizes) for part in loop.contraction.parts(loop.shape))
    depth, tiles = extents[0].evaluate(sizes), batch * -(-rows // TILE) * -(-cols // TILE)
    if min(rows, cols) <= FEW_LINES:
        if _is_along_depth(loop, extents[0], rows <= cols):
            return 0  # a warp for each result keeps enough of a GPU busy
        fragments = max(rows, cols) % 8 == depth % 8 == 0 and _suits_fragments(loop, extents[0], rows <= cols)
        tiles = batch * -(-max(rows, cols) // (FRAGMENT_COLUMNS if fragments else THREAD_COLUMNS))
    if tiles > MOST_TILES or depth < LEAST_DEPTH:
        return 0
    share = max(LEAST_SHARE, 1 << (-(-depth * tiles // FULL_GRID) - 1).bit_length())
    return share if depth > 2 * share else 0


def _suits_fragments(loop: Loop, depth: Index, right_is_large: bool) -> bool:
    """Whether operands are of a half type, and neighbours of the smaller one are neighbours along the depth: a block
    has all of it then, in warps that share it (16 x 8192 x 8192 on an H200: 1.12 of eager; in four parts 0.86)."""
    assert loop.contraction is not None
    axes, inner = variables_of(loop.names, loop.shape)[0], (of(Variable("k", depth)),)
    values = [side(axes, inner) for side in (loop.contraction.left, loop.contraction.right)]
    dtypes = {value.buffer.dtype if isinstance(value, Load) else "" for value in values}
    return len(dtypes) == 1 and dtypes <= {"float16", "bfloat16"} and _is_along_depth(loop, depth, not right_is_large)


def _is_along_depth(loop: Loop, depth: Index, of_right: bool) -> bool:
    """Whether neighbouring elements of an operand are neighbours along the depth."""
    assert loop.contraction is not None
    inner = of(Variable("k", depth))
    axes, _ = variables_of(loop.names, loop.shape)
    value = (loop.contraction.right if of_right else loop.contraction.left)(axes, (inner,))
    offsets = [flatten(load.index, load.buffer.shape) for load in value.loads]
    return any(not (offset - inner).variables & inner.variables for offset in offsets)


def split_attention(loops: Sequence[Loop], sizes: Mapping[str, int]) -> list[Loop]:
    """The loops, with those for parts of the keys in place of each attention that has so few queries at these sizes
    that its blocks leave a GPU idle."""
    shares = {loop: _keys(loop, sizes) for loop in loops}
    return [one for loop, share in shares.items() for one in (_split_keys(loop, share) if share else (loop,))]


def _keys(loop: Loop, sizes: Mapping[str, int]) -> int:
    """How many keys each part has; 0 if one part is better."""
    if not loop.attends or loop.contraction is None:
        return 0
    batch, rows, cols = (product(part).evaluate(sizes) for part in loop.contraction.parts(loop.shape))
    keys, tiles = _extents(loop)[0].evaluate(sizes), batch * -(-rows // FEW_QUERIES) * -(-cols // TILE)
    if keys < MANY_KEYS or 2 * tiles > FULL_GRID:
        return 0
    return max(LEAST_KEYS, 1 << (-(-keys * tiles // ATTENTION_GRID) - 1).bit_length())


def _split_keys(loop: Loop, share: int) -> tuple[Loop, ...]:
    """Attention to each part of the keys, with the logarithms of the sums of exponentials; and the average of the
    parts' results, weighted by these sums."""
    assert loop.contraction is not None and loop.reduction is not None
    contraction, buffer, kind = loop.contraction, loop.buffer, compute_type(loop.buffer.dtype)
    keys, depth = _extents(loop)
    key, parts = Variable("key", keys), divide(keys + (share - 1), as_index(share))[0]
    seen = sorted((*contraction.batch, *contraction.rows))

    def temporary(name: str, *shape: Index) -> Buffer:
        return Buffer(name, shape, kind, "temporary", node=buffer.node)

    name, number = buffer.name.removeprefix("scaled_dot_product_"), buffer.name.lstrip(string.ascii_letters + "_")
    partial = temporary(f"{name}_partial", parts, *buffer.shape)
    log_sums = temporary(f"{name}_log_sums", parts, *(buffer.shape[dim] for dim in seen))
    largest, below, total, weighted = (
        temporary(f"{one}{number}", *buffer.shape) for one in ("largest_part", "below", "parts_total", "weighted_parts")
    )

    def attended(axes: Indices, inner: Indices) -> Attended:
        found = loop.body(axes[1:], (of(key), inner[1]))
        moved = substitute_in(found, {key: axes[0] * share + inner[0]})
        assert isinstance(moved, Attended)
        return replace(moved, safe=True)  # a part may be masked where others are not

    def element(axes: Indices, inner: Indices) -> Scalar:
        return contraction.right(axes[1:], (axes[0] * share + inner[0],))

    def log_sum(axes: Indices, inner: Indices) -> Scalar:
        return Load(kind, log_sums, (*inner, *(axes[dim] for dim in seen)))

    @cache
    def weight(axes: Indices, inner: Indices) -> Scalar:
        return Named(kind, "weight", apply("exp", log_sum(axes, inner) - Load(kind, below, axes)))

    def averaged(axes: Indices, _: Indices) -> Scalar:
        whole = Load(kind, total, axes)
        return Load(kind, weighted, axes) / (_unless(whole, 0, 1) if is_safe else whole)

    axes, _ = variables_of(loop.names, loop.shape)
    is_safe = getattr(loop.body(axes, (of(key), of(Variable("place", depth)))), "safe", False)
    batch, rows = ((0, *(dim + 1 for dim in contraction.batch)), tuple(dim + 1 for dim in contraction.rows))
    joined = Loop(total, loop.names, weight, Reduction("sum", fixed((parts,)), PARTS_AXIS))
    return (
        Loop(
            partial,
            (*PARTS_AXIS, *loop.names),
            attended,
            replace(loop.reduction, extents=lambda axes: (minimum(as_index(share), keys - axes[0] * share), depth)),
            Contraction(batch, rows, element, element, dtype=contraction.dtype),
            log_sums=log_sums,
        ),
        replace(joined, buffer=largest, body=log_sum, reduction=Reduction("fast_max", fixed((parts,)), PARTS_AXIS)),
        Loop(below, loop.names, lambda axes, _: _unless(Load(kind, largest, axes), -math.inf, 0)),
        replace(joined, buffer=weighted, body=lambda axes, i: weight(axes, i) * Load(kind, partial, (*i, *axes))),
        joined,
        replace(loop, body=averaged, reduction=None, contraction=None),
    )


def _unless(value: Scalar, limit: float, otherwise: float) -> Scalar:
    """A value, or another number where it is a limit."""
    return choose(call("eq", "bool", value, literal(limit, value.dtype)), otherwise, value)


def _selects(loop: Loop) -> bool:
    """Whether a reduction is of elements whose places are loaded, as a loss of classes is."""
    axes, _ = variables_of(loop.names, loop.shape)
    inner = tuple(of(Variable(f"k{number}", extent)) for number, extent in enumerate(_extents(loop)))
    places = (index for load in loop.body(axes, inner).loads for index in load.index)
    return any(isinstance(atom, Opaque) for index in places for atom in index.atoms())


def _is_long(loop: Loop, sizes: Mapping[str, int], least: Mapping[Indices, int]) -> bool:
    if not _can_split(loop):
        return False
    extents = _extents(loop)
    few = product(loop.buffer.shape).evaluate(sizes) <= FEW_RESULTS
    return few and product(extents).evaluate(sizes) >= least.get(tuple(extents), LONG_ROW)


def _can_split(loop: Loop) -> bool:
    if loop.reduction is None or loop.contraction is not None or loop.steps or _identity(loop) is None:
        return False
    return not any(one.variables for one in _extents(loop)) and compute_type(loop.buffer.dtype) in _PARTS


def _identity(loop: Loop) -> float | None:
    """What does not change a reduction; None if it has no such number."""
    assert loop.reduction is not None
    known = _IDENTITIES | (_FLOAT_IDENTITIES if compute_type(loop.buffer.dtype).startswith("float") else {})
    return known.get(loop.reduction.kind)


def _share(loop: Loop, sizes: Mapping[str, int]) -> int:
    """How many elements a part has, so that the parts of all results fill a grid at these sizes."""
    elements = product((*loop.buffer.shape, *_extents(loop))).evaluate(sizes) // FULL_GRID
    return min(SHARE, max(LEAST_ELEMENTS, 1 << (elements - 1).bit_length()))


def _split(loop: Loop, share: int, dim: int = 0) -> tuple[Loop, Loop]:
    """The loop that reduces parts of so many steps along an inner axis, its first axis, and the one that joins them."""
    assert loop.reduction is not None
    buffer, kind, extents, whole = loop.buffer, compute_type(loop.buffer.dtype), _extents(loop), as_index(share)
    parts, is_even = divide(extents[dim] + (share - 1), whole)[0], divide(extents[dim], whole)[1] == ZERO
    partial = Buffer(f"{buffer.name}_partial", (parts, *buffer.shape), kind, "temporary", node=buffer.node)

    def of_part(given: Callable[[Indices, Indices], Scalar]) -> Callable[[Indices, Indices], Scalar]:
        return lambda axes, inner: given(axes[1:], replaced(inner, dim, axes[0] * share + inner[dim]))

    def length(axes: Indices) -> Indices:
        return replaced(extents, dim, whole if is_even else minimum(whole, extents[dim] - axes[0] * share))

    def joined(axes: Indices, inner: Indices) -> Scalar:
        return Load(kind, partial, (*inner, *axes))

    made, reduction = loop.contraction, loop.reduction
    if made is not None:
        batch, rows = ((0, *(one + 1 for one in made.batch)), tuple(one + 1 for one in made.rows))
        made = Contraction(batch, rows, of_part(made.left), of_part(made.right), dtype=made.dtype)
    first = replace(loop, buffer=partial, names=(*PARTS_AXIS, *loop.names), body=of_part(loop.body), contraction=made)
    joining = Reduction(reduction.kind, fixed((parts,)), PARTS_AXIS)
    return (
        replace(first, reduction=replace(reduction, extents=length)),
        replace(loop, body=joined, reduction=joining, contraction=None),
    )


def _flat(loop: Loop, dims: int) -> Loop:
    """The loop with the first inner axes as one."""
    assert loop.reduction is not None
    extents, names = _extents(loop), loop.reduction.names
    return replace(
        loop,
        body=lambda axes, inner: loop.body(axes, (*unflatten(inner[0], extents[:dims]), *inner[1:])),
        reduction=Reduction(
            loop.reduction.kind, fixed((product(extents[:dims]), *extents[dims:])), ("k", *names[dims:])
        ),
    )


def _rows_of_part(loop: Loop, sizes: Mapping[str, int]) -> int:
    """How many rows each part has of columns that are long and so few that their blocks leave a GPU idle; 0 if one part
    is better."""
    if not _can_split(loop) or not _are_columns(loop):
        return 0
    longest = max(extent.evaluate(sizes) for extent in _extents(loop))
    blocks = -(-product(loop.shape).evaluate(sizes) // COLUMNS)
    share = max(LEAST_ROWS, 1 << (longest * blocks // COLUMN_GRID - 1).bit_length())
    return share if 2 * blocks < FULL_GRID and longest >= max(LONG_COLUMN, 2 * share) else 0


def _are_columns(loop: Loop) -> bool:
    """Whether neighbouring results are made of neighbours in memory, and one result is not."""
    assert loop.reduction is not None
    axes, variables = variables_of(loop.names, loop.shape)
    names = tuple(f"{name}_inner" for name in loop.reduction.names)
    inner, steps = variables_of(names, loop.reduction.extents(axes))
    places = [flatten(load.index, load.buffer.shape) for load in loop.body(axes, inner).loads]

    def beside(axis: Variable) -> bool:
        return any(not (place - of(axis)).variables & {axis} for place in places)

    return (
        bool(variables and steps) and axes[-1] == of(variables[-1]) and beside(variables[-1]) and not beside(steps[-1])
    )


def _has_rows(loop: Loop, sizes: Mapping[str, int]) -> bool:
    """Whether it goes through many rows of some length, and reads what depends on the row alone: a thread that took
    elements of all rows would divide for their places."""
    assert loop.reduction is not None
    extents = _extents(loop)
    *outer, width = (extent.evaluate(sizes) for extent in extents)
    if not outer or prod(outer) < FULL_GRID or not SHORT_PART <= width <= LONG_ROW:
        return False
    axes, _ = variables_of(loop.names, loop.shape)
    inner, variables = variables_of(tuple(f"{name}_inner" for name in loop.reduction.names), extents)
    if len(variables) != len(extents):
        return False
    flat = flatten(inner, extents)
    places = (flatten(load.index, load.buffer.shape) for load in loop.body(axes, inner).loads)
    return any((place - flat).variables & frozenset(variables) for place in places)
