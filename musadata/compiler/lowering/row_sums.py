"""Sums over the columns of a product, made in its tiles: each leaves the sums of its rows, which a second loop joins.

The product is not in memory then, which a mean behind a linear layer would write and read again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from musadata.compiler.ir.index_formulas import Index, Variable, as_index, divide
from musadata.compiler.ir.program import Indices, Loop, Reduction, fixed
from musadata.compiler.ir.scalar import Buffer, Load, Named, Scalar, compute_type
from musadata.compiler.lowering import gates
from musadata.compiler.lowering.fusion import PARTS_AXIS
from musadata.compiler.lowering.loop_points import axes_of, inner_axes, value_at
from musadata.compiler.lowering.rewriting import replace_loads, substitute_in

WIDTH = 128  # columns of a tile


@dataclass(frozen=True)
class _RowSum:
    """A loop that adds up `value`, made of the elements of a product, over all its columns, `col` of `row`."""

    loop: Loop
    product: Loop
    value: Scalar
    row: Mapping[int, Variable]
    col: tuple[int, Variable]


def sum_in_tiles(
    loops: Sequence[Loop], returned: set[Buffer], sizes: Mapping[str, int]
) -> tuple[list[Loop], dict[Buffer, Buffer]]:
    """The loops, with two in place of each sum over the columns of a large product that nothing else reads: one that
    its kernel can end with, and one that joins what it leaves; and the product of each first one."""
    found: list[Loop] = []
    ends: dict[Buffer, Buffer] = {}
    width = 2 * gates.FEWEST_COLS
    inside = {one.buffer: one for one in loops if gates.is_large(one, sizes, width) and one.buffer not in returned}
    for loop in loops if inside else ():
        if loop.is_pointwise and not loop.steps and loop.buffer not in returned and _reads(loop, inside):
            inside[loop.buffer] = loop
    inside = {buffer: loop for buffer, loop in inside.items() if gates.readers(buffer, loops) == 1}
    gone: set[Buffer] = set()
    for loop in loops:
        row_sum = _row_sum(loop, inside, gone)
        if row_sum is None:
            found.append(loop)
        else:
            found += _in_tiles(row_sum)
            ends[found[-2].buffer] = row_sum.product.buffer
    return [loop for loop in found if loop.buffer not in gone], ends


def _reads(loop: Loop, buffers: Collection[Buffer]) -> bool:
    return any(load.buffer in buffers for load in value_at(loop, *axes_of(loop)).loads)


def _row_sum(loop: Loop, inside: Mapping[Buffer, Loop], gone: set[Buffer]) -> _RowSum | None:
    """Such a loop, with what is computed of the product on the way, whose loops are `gone` then."""
    if loop.reduction is None or loop.contraction is not None or loop.reduction.kind != "sum" or loop.steps:
        return None
    axes, variables = axes_of(loop)
    inner, steps = inner_axes(loop, axes, variables)
    read: set[Buffer] = set()

    def spelled(load: Load) -> Scalar | None:
        made = inside.get(load.buffer)
        if made is None or made.contraction is not None:
            return None
        read.add(load.buffer)
        value = replace_loads(made.body(load.index, ()), spelled, {})
        return Named(value.dtype, made.buffer.node or made.buffer.name, value)

    value = replace_loads(loop.body(axes, inner), spelled, {})
    products = {buffer: one for buffer, one in inside.items() if one.contraction is not None}
    loads = [load for load in value.loads if load.buffer in products]
    others = {load.buffer.role for load in value.loads if load not in loads}
    if len({(load.buffer, load.index) for load in loads}) != 1 or not others <= {"argument", "state", "constant"}:
        return None
    made, index = products[loads[0].buffer], loads[0].index
    assert made.contraction is not None
    *cols, col = (dim for dim in range(len(index)) if dim not in (*made.contraction.batch, *made.contraction.rows))
    row = {dim: place.variable for dim, place in enumerate(index) if dim != col and place.variable is not None}
    is_whole = len(steps) == 1 and index[col].variable == steps[0] and steps[0].extent == made.shape[col]
    if cols or not is_whole or tuple(row.values()) != variables or compute_type(loop.buffer.dtype) != "float32":
        return None
    gone |= read
    return _RowSum(loop, made, value, row, (col, steps[0]))


def _in_tiles(found: _RowSum) -> tuple[Loop, Loop]:
    made, loop, (col, step) = found.product, found.loop, found.col
    width, kept = as_index(WIDTH), [dim for dim in range(len(made.shape)) if dim != col]
    parts = divide(made.shape[col] + (WIDTH - 1), width)[0]
    shape = (parts, *(made.shape[dim] for dim in kept))
    partial = Buffer(f"{loop.buffer.name}_partial", shape, "float32", "temporary", node=loop.buffer.node)

    def element(axes: Indices, _: Indices) -> Scalar:
        change: dict[Variable, Index] = {variable: axes[dim] for dim, variable in found.row.items()}
        return substitute_in(found.value, {**change, step: axes[col]})

    def place(axes: Indices) -> Indices:
        return (divide(axes[col], width)[0], *(axes[dim] for dim in kept))

    def joined(axes: Indices, inner: Indices) -> Scalar:
        own = iter(axis for axis in axes if axis.variable is not None)
        index = (next(own) if dim in found.row else axes[0] * 0 for dim in kept)
        return Load("float32", partial, (*inner, *index))

    return (
        Loop(partial, made.names, element, spread=made.shape, summed=place),
        replace(loop, body=joined, reduction=Reduction("sum", fixed((parts,)), PARTS_AXIS)),
    )
