"""Matrix products, and convolutions written as such, in shared-memory tiles."""

import re
from collections.abc import Iterator, Sequence

from musadata.teacher.compiler.emission.cpp import C_TYPES, number_text
from musadata.teacher.compiler.emission.launch import EmittedKernel, count_text, finish
from musadata.teacher.compiler.emission.pointwise import names_in, write_store
from musadata.teacher.compiler.emission.statements import INDEX, Block, decode
from musadata.teacher.compiler.ir.index_formulas import Index, Variable, of, product, rename_variables
from musadata.teacher.compiler.ir.scalar import Choose, Compare, Load, Local, Scalar
from musadata.teacher.compiler.lowering.fusion import Kernel, Reduce
from musadata.teacher.compiler.lowering.layout import flatten

TILED = "shared-memory tiles"
TILE = 16
SMALL_TILE = 8


def can_tile(kernel: Kernel) -> bool:
    """One contraction, everything else pointwise on its result, and axes that fall into rows and columns."""
    if len(kernel.reductions) != 1 or kernel.reductions[0].contraction is None or not kernel.reductions[0].axes:
        return False
    return all(not store.axes for store in kernel.stores) and partition(kernel) is not None


def partition(kernel: Kernel) -> tuple[tuple[Variable, ...], tuple[Variable, ...], tuple[Variable, ...]] | None:
    """The kernel's axes as (batch, rows, columns)."""
    stage = kernel.reductions[0]
    assert stage.contraction is not None
    parts = stage.contraction.parts(stage.index)
    found = tuple(tuple(v for v in kernel.axes if any(v in i.variables for i in part)) for part in parts)
    if sorted(v.name for part in found for v in part) != sorted(v.name for v in kernel.axes):
        return None
    return found  # type: ignore[return-value]


def depth_of(block: Block, stage: Reduce) -> str:
    """The number of steps along the inner axes, by a name if it depends on the point."""
    depth = product(axis.extent for axis in stage.axes)
    return block.name_formula(depth, "count") if depth.variables else block.index(depth)


def write_depth(block: Block, kernel: Kernel, tile: tuple[int, int]) -> str:
    """The number of steps, which is 0 for a tile of (rows, columns) on the side of a diagonal that a kernel sets to 0:
    a triangle of a product takes half of its work."""
    stage, parts = kernel.reductions[0], partition(kernel)
    edges = {edge for store in kernel.stores for edge in _edges(store.value, stage.local)}
    depth = depth_of(block, stage)
    edge = edges.pop() if len(edges) == 1 and stage.buffer is None else None
    if edge is None or parts is None or len(parts[1]) != 1 or len(parts[2]) != 1:
        return depth
    (row,), (col,) = parts[1:]
    lower, upper = edge
    downward, upward = upper - lower - of(row) + of(col), upper - lower + of(row) - of(col)
    if downward.variables and upward.variables:
        return depth
    firsts = {row: Variable("first_row", row.extent), col: Variable("first_col", col.extent)}
    last = tile[bool(downward.variables)] - 1
    lower, upper = (rename_variables(side, firsts) for side in (lower, upper + last))
    inside = f"{block.index(lower)} <= {block.index(upper)}"
    name = block.fresh("steps")
    block.write(f"const {INDEX} {name} = {inside} ? {depth} : 0;  // a tile beyond the diagonal is 0")
    return name


def _edges(value: Scalar, local: str) -> Iterator[tuple[Index, Index] | None]:
    """The conditions `left <= right` under which alone a value depends on a sum; None if it always does."""
    if isinstance(value, Local) and value.name == local:
        yield None
    elif isinstance(value, Choose) and isinstance(value.condition, Compare) and value.condition.relation == "<=":
        if any(isinstance(node, Local) and node.name == local for node in value.yes.walk()):
            yield value.condition.left, value.condition.right
        yield from _edges(value.no, local)
    else:
        for child in value.children:
            yield from _edges(child, local)


def emit_tiled(kernel: Kernel, size_names: Sequence[str], rows_hint: int, cols_hint: int) -> EmittedKernel:
    """A block per tile of the output; operands pass through shared memory tile by tile."""
    stage = kernel.reductions[0]
    parts = partition(kernel)
    assert parts is not None and stage.contraction is not None
    batch, rows, cols = parts
    tile = TILE if min(rows_hint, cols_hint) > SMALL_TILE else SMALL_TILE
    inner_names = [v.name for v in stage.axes]
    block = Block([*names_in(kernel, size_names), *inner_names, "tile_row", "tile_col", "k", "start", stage.local])
    row = rows[0].name if len(rows) == 1 else "tile_row"
    col = cols[0].name if len(cols) == 1 else "tile_col"
    kind = C_TYPES[stage.dtype]
    block.write(f"__shared__ {kind} left_tile[{tile}][{tile}];")
    left, right = (side(stage.index, stage.loops) for side in (stage.contraction.left, stage.contraction.right))
    crossed = len(cols) == 1 and _runs_along(right, stage.axes)
    padding = 32 // tile if crossed else 0  # the threads of a warp, which write columns, reach different banks
    block.write(f"__shared__ {kind} right_tile[{tile}][{tile + padding}];")
    row_block, col_block = longest_first(rows_hint, cols_hint)
    block.write(f"const {INDEX} {row} = {row_block} * {tile} + threadIdx.y;")
    block.write(f"const {INDEX} {col} = {col_block} * {tile} + threadIdx.x;")
    loaded_col = block.fresh(f"loaded_{col}") if crossed else col
    if crossed:
        block.write(
            f"const {INDEX} {loaded_col} = {col_block} * {tile} + threadIdx.y;  // whose neighbours lie along k"
        )
    write_batch(block, batch)
    rows_text, cols_text = count_text(block, rows), count_text(block, cols)
    for flat, axes in ((row, rows), (col, cols)):
        if len(axes) > 1:
            block.printer.positions[flatten([of(v) for v in axes], [v.extent for v in axes])] = flat
    head = len(block.lines)
    block.write()
    taken = {buffer.name for buffer in (*kernel.inputs, *kernel.outputs)}
    local = "accumulator" if "accumulator" not in taken else "accumulated"
    block.printer.rename = {stage.local: local}
    block.write(f"{kind} {local} = {number_text(0, stage.dtype)};")
    depth_text = depth_of(block, stage)
    with block.scope(f"for ({INDEX} start = 0; start < {depth_text}; start += {tile})"):
        across = "threadIdx.y", "threadIdx.x"
        _load_tile(block, "left_tile", across, left, stage, f"{row} < {rows_text}", depth_text)
        if crossed:
            block.printer.rename |= {col: loaded_col}
            _load_tile(block, "right_tile", across[::-1], right, stage, f"{loaded_col} < {cols_text}", depth_text)
            del block.printer.rename[col]
        else:
            _load_tile(block, "right_tile", across, right, stage, f"{col} < {cols_text}", depth_text)
        block.write("__syncthreads();")
        block.write("#pragma unroll")
        with block.scope(f"for (int k = 0; k < {tile}; ++k)"):
            block.write(f"{local} += left_tile[threadIdx.y][k] * right_tile[k][threadIdx.x];")
        block.write("__syncthreads();  // before the tiles are overwritten")
    block.write()
    with block.scope(f"if ({row} < {rows_text} && {col} < {cols_text})"):
        if stage.buffer is not None:
            place = block.printer.offset(stage.buffer, stage.index)
            block.write(f"{stage.buffer.name}[{place}] = {local};")
        for store in kernel.stores:
            write_store(block, store)
    decode_used(block, head, (row, rows), (col, cols))
    blocks = [tile_count(cols_text, tile), tile_count(rows_text, tile)][:: -1 if row_block == "blockIdx.x" else 1]
    blocks += [count_text(block, batch)] if batch else []
    setup = (f"const dim3 threads({tile}, {tile});", f"const dim3 blocks({', '.join(blocks)});")
    return finish(kernel, TILED, block, setup, size_names)


def longest_first(rows: int, cols: int) -> tuple[str, str]:
    """The blocks of rows and of columns: the more of them along x, since only a grid's x has more than 65,535."""
    return ("blockIdx.x", "blockIdx.y") if rows > cols else ("blockIdx.y", "blockIdx.x")


def write_batch(block: Block, batch: tuple[Variable, ...]) -> None:
    """The batch axes from the grid's third dimension."""
    if len(batch) == 1:
        block.write(f"const {INDEX} {batch[0].name} = blockIdx.z;")
    elif batch:
        decode(block, "blockIdx.z", batch, frozenset(batch))


def tile_count(extent: str, tile: int) -> str:
    """How many tiles cover an extent, as the host writes it."""
    return str(-(-int(extent) // tile)) if extent.isdigit() else f"({extent} + {tile - 1}) / {tile}"


def decode_used(block: Block, place: int, *parts: tuple[str, tuple[Variable, ...]]) -> None:
    """Before the lines from `place` on, compute the axes from their flat positions that those lines use by name."""
    body = block.lines[place:]
    text = "\n".join(body)
    del block.lines[place:]
    for flat, axes in parts:
        if len(axes) > 1:
            decode(block, flat, axes, frozenset(v for v in axes if re.search(rf"\b{v.name}\b", text)))
    block.lines += body


def _runs_along(value: Scalar, axes: Sequence[Variable]) -> bool:
    """Whether neighbours along the only axis of a sum are neighbours in memory."""
    if len(axes) != 1 or not isinstance(value, Load) or value.children:
        return False
    return ((axes[0],), 1) in flatten(list(value.index), list(value.buffer.shape)).terms


def _load_tile(
    block: Block, tile: str, place: tuple[str, str], value: Scalar, stage: Reduce, inside: str, depth: str
) -> None:
    """Each thread brings one element of an operand, or 0 outside of it, to `place` in the tile: of the left one
    the second index goes along the sum, of the right one the first."""
    along = place[1] if tile == "left_tile" else place[0]
    position = f"start + {along}"
    zero = number_text(0, stage.dtype)
    single = len(stage.axes) == 1
    if single and isinstance(value, Load) and not value.children:  # a loaded index must be read inside of the bounds
        rename = {stage.axes[0].name: position}
        block.printer.rename = {**(block.printer.rename or {}), **_bracketed(value, stage.axes[0], rename)}
        text = block.value(value)
        block.printer.rename = {k: v for k, v in block.printer.rename.items() if k != stage.axes[0].name}
        block.write(f"{tile}[{place[0]}][{place[1]}] =")
        block.write(f"    ({inside} && {position} < {depth}) ? {text} : {zero};")
        return
    loaded = block.fresh("loaded")
    flat = stage.axes[0].name if single else "k"
    block.write(f"{C_TYPES[stage.dtype]} {loaded} = {zero};")
    with block.scope(f"if ({inside} && {position} < {depth})"):
        block.write(f"const {INDEX} {flat} = {position};")
        if not single:
            decode(block, flat, stage.axes, value.variables & frozenset(stage.axes))
        block.write(f"{loaded} = {block.value(value)};")
    block.write(f"{tile}[{place[0]}][{place[1]}] = {loaded};")


def _bracketed(value: Load, axis: Variable, rename: dict[str, str]) -> dict[str, str]:
    """The position in brackets, unless it is the last index and so not part of a product."""
    last = value.index[-1] == of(axis)
    return rename if last else {axis.name: f"({rename[axis.name]})"}
