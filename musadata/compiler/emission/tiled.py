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
    Assign,
    Binary,
    Braces,
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
from musadata.compiler.ir.schedule import Schedule, Split, Stage, Step, Tile
from musadata.compiler.lowering.fusion import Kernel, Reduce, Store
from musadata.compiler.lowering.layout import flatten
from musadata.compiler.lowering.rewriting import substitute
from musadata.compiler.lowering.shared_axes import dealt

TILE = 16
BUSY_BLOCKS = 128  # with fewer tiles most of a GPU is idle
SMALL_TILE = 8
Place = tuple[Expression, Expression]  # in a tile
_MOST_SHARED = 8  # results of a thread; with more, too few threads wait for memory


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


def depth_of(block: Block, stage: Reduce) -> Expression:
    """The number of steps along the inner axes, by a name if it depends on the point."""
    depth = product(axis.extent for axis in stage.axes)
    return block.name_formula(depth, "count") if depth.variables else block.index(depth)


def write_depth(block: Block, kernel: Kernel, tile: tuple[int, int]) -> Expression:
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


def steps_for(kernel: Kernel, rows: int, cols: int) -> tuple[Step, ...]:
    """Tiles for so many rows and columns."""
    down, across = _results_per_thread(*parts_of(kernel)[1:], rows, cols)
    operands = Stage("operands", "shared")
    if (many := down * across) > 1:
        return Tile(TILE * down, TILE * across, TILE, rows > cols), operands, Split("outputs", many)
    side = TILE if min(rows, cols) > SMALL_TILE else SMALL_TILE
    return Tile(side, side, side, rows > cols), operands


def emit_tiled(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """A block per tile of the output; operands pass through shared memory tile by tile."""
    return (_LongTiles if schedule.find(Split) else _Tiles)(kernel, schedule).emit()


def _results_per_thread(
    rows: tuple[Variable, ...], cols: tuple[Variable, ...], rows_hint: int, cols_hint: int
) -> tuple[int, int]:
    """How many rows and columns a thread has: all of few ones go into one tile, so that the operand with the many
    others is read once."""
    few, axes = min((rows_hint, rows), (cols_hint, cols), key=lambda side: side[0])
    many = -(-few // TILE)
    if not 1 < many <= _MOST_SHARED or len(axes) != 1 or max(rows_hint, cols_hint) < TILE * BUSY_BLOCKS:
        return 1, 1
    return (many, 1) if axes is rows else (1, many)


class _Tiles:
    """The kernel under construction: tiles of as many rows as columns, with a thread for each result."""

    own_names: tuple[str, ...] = ("tile_row", "tile_col", "k", "start")

    def __init__(self, kernel: Kernel, schedule: Schedule):
        self.kernel, self.stage = kernel, kernel.reductions[0]
        self.batch, self.rows, self.cols = parts_of(kernel)
        self.schedule, tile = schedule, schedule.get(Tile)
        self.high, self.wide, self.side = tile.sides
        inner = [v.name for v in self.stage.axes]
        self.block = Block.of(kernel, schedule, [*inner, *self.own_names, self.stage.local])
        self.row = self.rows[0].name if len(self.rows) == 1 else "tile_row"
        self.col = self.cols[0].name if len(self.cols) == 1 else "tile_col"
        self.row_block, self.col_block = longest_first(self.block, kernel, tile)
        self.left, self.right = self.stage.operands
        self.crossed = len(self.cols) == 1 and _runs_along(self.right, self.stage.axes)

    def emit(self) -> EmittedKernel:
        """Bring tiles of both operands, multiply them, and store what is made of the sums."""
        block, side, kind = self.block, self.side, C_TYPES[self.stage.dtype]
        padding = 32 // side if self.crossed else 0  # threads of a warp, which write columns, reach different banks
        block.shared(kind, "left_tile", self.high, side)
        block.shared(kind, "right_tile", side, self.wide + padding)
        self._write_positions(self.row_block * self.high, self.col_block * self.wide)
        write_entry(block, self.kernel)
        rows, cols = count_of(block, self.rows), count_of(block, self.cols)
        block.name_flat(self.rows, self.row)
        block.name_flat(self.cols, self.col)
        head = len(block.body)
        block.blank()
        total = self._write_sums(kind)
        depth = depth_of(block, self.stage)
        with block.loop("start", 0, depth, side):
            self._load(rows, cols, depth)
            block.barrier()
            self._multiply(kind, total)
            block.barrier("before the tiles are overwritten")
        block.blank()
        block.printer.rename = {self.stage.local: total}
        with self._each_result(), block.when(every(Name(self.row) < rows, Name(self.col) < cols)):
            write_results(block, self.kernel)
        decode_used(block, head, (self.row, self.rows), (self.col, self.cols))
        counts = covering(rows, self.high), covering(cols, self.wide)
        blocks = grid(block, self.kernel, *counts, self.schedule.get(Tile).rows_first)
        setup = (sides("threads", side, side), sides("blocks", *blocks))
        return finish(self.kernel, self.schedule, block, setup, threads=(side, side))

    def _write_positions(self, row_first: Expression, col_first: Expression) -> None:
        block = self.block
        block.declare(self.row, row_first + THREAD_Y)
        block.declare(self.col, col_first + THREAD_X)
        self.loaded_col = block.fresh(f"loaded_{self.col}") if self.crossed else self.col
        if self.crossed:
            block.declare(self.loaded_col, col_first + THREAD_Y, note="whose neighbours lie along k")

    def _write_sums(self, kind: str) -> Expression:
        """Declare what a thread's sums are in, and say how one is called."""
        taken = {buffer.name for buffer in (*self.kernel.inputs, *self.kernel.outputs)}
        local = "accumulator" if "accumulator" not in taken else "accumulated"
        self.block.variable(kind, local, number(0, self.stage.dtype))
        return Name(local)

    def _load(self, rows: Expression, cols: Expression, depth: Expression) -> None:
        """Bring the elements of both tiles that are a thread's own."""
        self._load_left((THREAD_Y, THREAD_X), rows, depth)
        across = (THREAD_X, THREAD_Y) if self.crossed else (THREAD_Y, THREAD_X)
        self._load_right(across, cols, depth, self.loaded_col)

    def _load_left(self, place: Place, rows: Expression, depth: Expression) -> None:
        _load_tile(self.block, "left_tile", place, self.left, self.stage, Name(self.row) < rows, depth)

    def _load_right(self, place: Place, cols: Expression, depth: Expression, column: str) -> None:
        """`column` is the name of the column that is loaded."""
        self.block.printer.rename = {self.col: Name(column)} if column != self.col else None
        _load_tile(self.block, "right_tile", place, self.right, self.stage, Name(column) < cols, depth)
        self.block.printer.rename = None

    def _multiply(self, kind: str, total: Expression) -> None:
        """Add up the products of the tiles."""
        block, k = self.block, Name("k")
        with block.loop("k", 0, self.side, kind="int", unroll=UNROLL):
            block.assign(total, Name("left_tile")[THREAD_Y][k] * Name("right_tile")[k][THREAD_X], "+=")

    @contextmanager
    def _each_result(self) -> Iterator[None]:
        """A thread's results, at whose rows and columns the statements inside are."""
        yield


class _LongTiles(_Tiles):
    """Tiles of 16 rows and several times 16 columns, or the other way round: a thread has one result in each 16."""

    own_names = ("tile_row", "tile_col", "first", "i", "k", "start", "accumulators")

    def __init__(self, kernel: Kernel, schedule: Schedule):
        super().__init__(kernel, schedule)
        self.many, self.by_rows = schedule.get(Split).amount, self.high > self.wide

    def _write_positions(self, row_first: Expression, col_first: Expression) -> None:
        block = self.block
        block.declare("first", row_first if self.by_rows else col_first)
        if self.by_rows:
            block.declare(self.col, col_first + THREAD_X)
        else:
            block.declare(self.row, row_first + THREAD_Y)

    def _write_sums(self, kind: str) -> Expression:
        self.block.array(kind, "accumulators", self.many, value=Braces())
        return Name("accumulators")["i"]

    @contextmanager
    def _each_result(self) -> Iterator[None]:
        with self._each(*((self.row, THREAD_Y) if self.by_rows else (self.col, THREAD_X))):
            yield

    @contextmanager
    def _each(self, name: str, place: Expression) -> Iterator[None]:
        """A loop over the results of a thread on the side that has several."""
        with self.block.unrolled("i", self.many):
            self.block.declare(name, Name("first") + place + Name("i") * TILE)
            yield

    def _load(self, rows: Expression, cols: Expression, depth: Expression) -> None:
        block, y, x, step = self.block, THREAD_Y, THREAD_X, Name("i") * TILE
        along, across = (x, y) if self.crossed else (y, x)  # of the right tile; neighbours in memory lie along x
        if not self.by_rows:
            self._load_left((y, x), rows, depth)
            with self._each(self.col, across):
                self._load_right((along, across + step), cols, depth, self.col)
            return
        with self._each(self.row, y):
            self._load_left((y + step, x), rows, depth)
        loaded = self.col
        if self.crossed:
            loaded = block.fresh(f"loaded_{self.col}")
            block.declare(loaded, Name(self.col) - x + y, note="whose neighbours lie along k")
        self._load_right((along, across), cols, depth, loaded)

    def _multiply(self, kind: str, total: Expression) -> None:
        block, k, step = self.block, Name("k"), Name("i") * TILE
        own, other = Name("left_tile")[THREAD_Y + step][k], Name("right_tile")[k][THREAD_X]
        if not self.by_rows:
            own, other = Name("right_tile")[k][THREAD_X + step], Name("left_tile")[THREAD_Y][k]
        with block.loop("k", 0, TILE, kind="int", unroll=UNROLL):
            block.declare("factor", other, kind)  # the same for all of a thread's results
            block.unrolled_line("i", self.many, Assign(total, "+=", Name("factor") * own))


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


def longest_first(block: Block, kernel: Kernel, tile: Tile) -> tuple[Expression, Expression]:
    """The blocks of rows and of columns: the more of them along x, since only a grid's x has more than 65,535."""
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
