"""Matrix products, and convolutions written as such, in shared-memory tiles."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from musadata.compiler.emission.block import UNROLL, Block, decode, decode_used
from musadata.compiler.emission.cpp import C_TYPES, number
from musadata.compiler.emission.launch import EmittedKernel, count_of, finish, sides
from musadata.compiler.emission.pointwise import write_store
from musadata.compiler.ir.code import (
    ATOM,
    BLOCK_X,
    BLOCK_Y,
    BLOCK_Z,
    THREAD_X,
    THREAD_Y,
    Binary,
    Choice,
    Expression,
    Group,
    Name,
    bracketed,
    code,
    covering,
    every,
)
from musadata.compiler.ir.index_formulas import (
    ZERO,
    Index,
    Operation,
    Variable,
    of,
    product,
)
from musadata.compiler.ir.scalar import Choose, Compare, Load, Local, Scalar, within
from musadata.compiler.ir.schedule import Schedule, Stage, Step, Tile
from musadata.compiler.lowering.fusion import Kernel, Reduce, Store
from musadata.compiler.lowering.layout import flatten
from musadata.compiler.lowering.rewriting import substitute
from musadata.compiler.lowering.shared_axes import dealt

TILE = 16
BUSY_BLOCKS = 128  # with fewer tiles most of a GPU is idle
SMALL_TILE = 8
MOST_BLOCKS = 65_535  # of a grid along y and z
Place = tuple[Expression, Expression]  # in a tile


def can_tile(kernel: Kernel) -> bool:
    """One contraction, everything else pointwise on its result, and axes that fall into rows and columns."""
    if len(kernel.reductions) != 1 or kernel.reductions[0].contraction is None or not kernel.reductions[0].axes:
        return False
    return all(not store.axes for store in kernel.stores) and partition(dealt(kernel)) is not None


def partition(kernel: Kernel) -> tuple[tuple[Variable, ...], tuple[Variable, ...], tuple[Variable, ...]] | None:
    """The kernel's axes as (batch, rows, columns)."""
    stage = kernel.reductions[0]
    assert stage.contraction is not None
    shared = stage.contraction.shared
    batch, *sides = stage.contraction.parts(stage.index)
    own = [tuple(substitute(index, dict.fromkeys(shared, ZERO)) for index in side) for side in sides]
    groups = ((*batch, *map(of, shared)), *own)
    found = tuple(tuple(v for v in kernel.axes if any(v in i.variables for i in part)) for part in groups)
    if sorted(v.name for part in found for v in part) != sorted(v.name for v in kernel.axes):
        return None
    return found  # type: ignore[return-value]


def parts_of(kernel: Kernel) -> tuple[tuple[Variable, ...], tuple[Variable, ...], tuple[Variable, ...]]:
    """The same of a kernel whose axes fall into these."""
    parts = partition(kernel)
    assert parts is not None
    return parts


def depth_of(block: Block, axes: Sequence[Variable]) -> Expression:
    """The number of steps along inner axes, by a name if it depends on the point."""
    depth = product(axis.extent for axis in axes)
    return block.name_formula(depth, "count") if depth.variables else block.index(depth)


def write_depth(block: Block, kernel: Kernel, tile: tuple[int, int], axes: Sequence[Variable]) -> Expression:
    """The number of steps along inner axes, which is 0 for a tile of (rows, columns) on the side of a diagonal that a
    kernel sets to 0: a triangle of a product takes half of its work."""
    stage, parts = kernel.reductions[0], partition(kernel)
    edges = {edge for store in kernel.stores for edge in _edges(store.value, stage.local)}
    depth = depth_of(block, axes)
    edge = edges.pop() if len(edges) == 1 and stage.buffer is None else None
    if edge is None or parts is None or len(parts[1]) != 1 or len(parts[2]) != 1:
        return depth
    (row,), (col,) = parts[1:]
    lower, upper = edge
    downward, upward = upper - lower - of(row) + of(col), upper - lower + of(row) - of(col)
    if downward.variables and upward.variables:
        return depth
    firsts = {row: of(Variable("first_row", row.extent)), col: of(Variable("first_col", col.extent))}
    last = tile[bool(downward.variables)] - 1
    lower, upper = (substitute(side, firsts) for side in (lower, upper + last))
    name = block.fresh("steps")
    steps = Choice(block.index(lower) <= block.index(upper), depth, code(0))
    block.declare(name, steps, note="a tile beyond the diagonal is 0")
    return Name(name)


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


def steps_for(rows: int, cols: int) -> tuple[Step, ...]:
    """Tiles for so many rows and columns."""
    side = TILE if min(rows, cols) > SMALL_TILE else SMALL_TILE
    return tile_of(side, side, side, rows, cols), Stage("operands", "shared")


def tile_of(height: int, width: int, depth: int, rows: int, cols: int, by_taps: bool = False) -> Tile:
    """A tile, for so many rows and columns. The fewer blocks lie along the grid's x: those that run at the same time
    then have lines of the longer operand in common, which is read once, and go through all of the shorter one, which
    stays in L2. One row of blocks lies along x, and so do more than the other axes have."""
    down, across = -(-rows // height), -(-cols // width)
    is_longest = min(down, across) == 1 or max(down, across) > MOST_BLOCKS
    return Tile(height, width, depth, down > across if is_longest else down < across, by_taps)


def emit_tiled(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """A block per tile of the output, as many rows as columns, and a thread for each result; operands pass through
    shared memory tile by tile."""
    stage, tile, (_, rows, cols) = kernel.reductions[0], schedule.get(Tile), parts_of(kernel)
    side, kind = tile.depth, C_TYPES[stage.dtype]
    own = (*(v.name for v in stage.axes), "tile_row", "tile_col", "k", "start", stage.local)
    block = Block.of(kernel, schedule, own)
    row = rows[0].name if len(rows) == 1 else "tile_row"
    col = cols[0].name if len(cols) == 1 else "tile_col"
    row_block, col_block = places_of_block(block, kernel, tile)
    left, right = stage.operands
    crossed = len(cols) == 1 and _runs_along(right, stage.axes)
    padding = 32 // side if crossed else 0  # threads of a warp, which write columns, reach different banks
    block.shared(kind, "left_tile", side, side)
    block.shared(kind, "right_tile", side, side + padding)
    block.declare(row, row_block * side + THREAD_Y)
    block.declare(col, col_block * side + THREAD_X)
    loaded_col = block.fresh(f"loaded_{col}") if crossed else col
    if crossed:
        block.declare(loaded_col, col_block * side + THREAD_Y, note="whose neighbours lie along k")
    write_entry(block, kernel)
    row_count, col_count = count_of(block, rows), count_of(block, cols)
    block.name_flat(rows, row)
    block.name_flat(cols, col)
    head = len(block.body)
    block.blank()
    taken = {buffer.name for buffer in (*kernel.inputs, *kernel.outputs)}
    total = Name("accumulator" if "accumulator" not in taken else "accumulated")
    block.variable(kind, total.name, number(0, stage.dtype))
    depth, k = depth_of(block, stage.axes), Name("k")
    with block.loop("start", 0, depth, side):
        _load_tile(block, "left_tile", (THREAD_Y, THREAD_X), left, stage, Name(row) < row_count, depth)
        block.printer.rename = {col: Name(loaded_col)} if crossed else None
        place = (THREAD_X, THREAD_Y) if crossed else (THREAD_Y, THREAD_X)
        _load_tile(block, "right_tile", place, right, stage, Name(loaded_col) < col_count, depth)
        block.printer.rename = None
        block.barrier()
        with block.loop("k", 0, side, kind="int", unroll=UNROLL):
            block.assign(total, Name("left_tile")[THREAD_Y][k] * Name("right_tile")[k][THREAD_X], "+=")
        block.barrier("before the tiles are overwritten")
    block.blank()
    block.printer.rename = {stage.local: total}
    with block.when(every(Name(row) < row_count, Name(col) < col_count)):
        write_results(block, kernel)
    decode_used(block, head, (row, rows), (col, cols))
    blocks = grid(block, kernel, covering(row_count, side), covering(col_count, side), tile.rows_first)
    setup = (sides("threads", side, side), sides("blocks", *blocks))
    return finish(kernel, schedule, block, setup, threads=(side, side))


def write_results(block: Block, kernel: Kernel) -> None:
    """What a kernel stores at the current point, whose sum goes by the name that the printer knows."""
    with when_inside(block, kernel.reductions[0]):
        for store in results(kernel):
            write_store(block, store)


def results(kernel: Kernel) -> list[Store]:
    """What a kernel stores of a contraction: the sum, if it is asked for, and what is made of it."""
    stage = kernel.reductions[0]
    own = [Store(stage.buffer, (), stage.index, Local(stage.dtype, stage.local))] if stage.buffer is not None else []
    return [*own, *kernel.stores]


def places_of_block(block: Block, kernel: Kernel, tile: Tile) -> tuple[Expression, Expression]:
    """Which of the blocks of rows, and of columns, a block is."""
    shared = _along_x(block, kernel)
    first = BLOCK_X / shared if shared else BLOCK_X
    return (first, BLOCK_Y) if tile.rows_first else (BLOCK_Y, first)


def _along_x(block: Block, kernel: Kernel) -> Expression | None:
    """How many blocks with the same rows and columns lie side by side along x, which differ by their phase or group
    alone: phases read the same places and store next to each other, so they meet in the cache. None where the batch
    goes along z."""
    contraction = kernel.reductions[0].contraction
    return bracketed(count_of(block, parts_of(kernel)[0]), ATOM) if contraction and contraction.shared else None


def write_entry(block: Block, kernel: Kernel) -> None:
    """Where in the batch a block is, and what depends on its phase alone."""
    write_batch(block, parts_of(kernel)[0], _along_x(block, kernel))
    _write_phases(block, kernel.reductions[0])


def write_batch(block: Block, batch: tuple[Variable, ...], shared: Expression | None = None) -> None:
    """The batch axes from the grid's third dimension, or from the first if blocks that share a tile lie along it."""
    number = BLOCK_X % shared if shared else BLOCK_Z
    if len(batch) == 1:
        block.declare(batch[0].name, number)
    elif batch:
        flat = BLOCK_Z.name
        if shared:
            flat = block.fresh("phase")
            block.declare(flat, number)
        decode(block, flat, batch, frozenset(batch))


def _write_phases(block: Block, stage: Reduce) -> None:
    """What depends on a block's phase alone: how many taps it has, the first of them, and where that reads."""
    if stage.contraction is None:
        return
    shared, counts = frozenset(stage.contraction.shared), {axis.extent: axis.name for axis in stage.axes}
    formulas = [formula for operand in stage.operands for node in operand.walk() for formula in node.formulas]
    for formula in (*counts, *formulas):
        for atom in reversed(list(formula.atoms())):
            found = of(atom)
            if not isinstance(atom, Operation) or not found.variables or not found.variables <= shared:
                continue
            if found not in block.printer.positions:
                letter = min(variable.name for variable in found.variables)[-1]
                name = f"{counts[found]}_count" if found in counts else "first_tap" if atom.kind == "%" else "moved"
                block.name_formula(found, name if found in counts else f"{name}_{letter}")


def grid(block: Block, kernel: Kernel, rows: Expression, cols: Expression, rows_first: bool) -> tuple[Expression, ...]:
    """The extents of a grid with so many tiles of rows and columns."""
    shared, batch = _along_x(block, kernel), parts_of(kernel)[0]
    blocks = (rows, cols) if rows_first else (cols, rows)
    if shared:
        return shared * bracketed(blocks[0], ATOM), blocks[1]
    return (*blocks, count_of(block, batch)) if batch else blocks


@contextmanager
def when_inside(block: Block, stage: Reduce) -> Iterator[None]:
    """What is stored only where a point is inside of the result: the last places of some phases are not."""
    shared, extents = (stage.contraction.shared, stage.contraction.extents) if stage.contraction else ((), ())
    tests = [t for at, extent in zip(stage.index, extents, strict=False) if shared for t in within(at, extent)]
    conditions = [Binary(block.index(t.left), t.relation, block.index(t.right)) for t in tests]
    with block.when(every(*conditions)) if tests else nullcontext():
        yield


def _runs_along(value: Scalar, axes: Sequence[Variable]) -> bool:
    """Whether neighbours along the only axis of a sum are neighbours in memory."""
    if len(axes) != 1 or not isinstance(value, Load) or value.children:
        return False
    return ((axes[0],), 1) in flatten(value.index, value.buffer.shape).terms


def _load_tile(
    block: Block,
    tile: str,
    place: Place,
    value: Scalar,
    stage: Reduce,
    inside: Expression,
    depth: Expression,
) -> None:
    """Each thread brings one element of an operand, or 0 outside of it, to `place` in the tile: of the left one
    the second index goes along the sum, of the right one the first."""
    along = place[1] if tile == "left_tile" else place[0]
    position, target = Name("start") + along, Name(tile)[place[0]][place[1]]
    zero = number(0, stage.dtype)
    condition = every(inside, position < depth)
    single = len(stage.axes) == 1
    if single and isinstance(value, Load) and not value.children:  # a loaded index must be read inside of the bounds
        axis = stage.axes[0]
        is_last = value.index[-1] == of(axis)  # and so not part of a product
        block.printer.rename = {**(block.printer.rename or {}), axis.name: position if is_last else Group(position)}
        element = block.value(value)
        block.printer.rename = {k: v for k, v in block.printer.rename.items() if k != axis.name}
        block.assign(target, Choice(Group(condition), element, zero), apart=True)
        return
    loaded = block.fresh("loaded")
    flat = stage.axes[0].name if single else "k"
    block.variable(C_TYPES[stage.dtype], loaded, zero)
    with block.when(condition):
        block.declare(flat, position)
        if not single:
            decode(block, flat, stage.axes, value.variables & frozenset(stage.axes))
        block.assign(loaded, block.value(value))
    block.assign(target, loaded)
