"""Matrix products, and convolutions written as such, in shared-memory tiles."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from musadata.teacher.compiler.emission.cpp import C_TYPES, number_text
from musadata.teacher.compiler.emission.launch import EmittedKernel, count_text, finish
from musadata.teacher.compiler.emission.pointwise import names_in, write_store
from musadata.teacher.compiler.emission.statements import INDEX, Block, decode
from musadata.teacher.compiler.ir.index_formulas import (
    ZERO,
    Index,
    Operation,
    Variable,
    of,
    product,
    rename_variables,
)
from musadata.teacher.compiler.ir.scalar import Choose, Compare, Load, Local, Scalar, within
from musadata.teacher.compiler.lowering.fusion import Kernel, Reduce
from musadata.teacher.compiler.lowering.layout import flatten
from musadata.teacher.compiler.lowering.rewriting import substitute
from musadata.teacher.compiler.lowering.shared_axes import dealt

TILED = "shared-memory tiles"
TILED_LONG = "shared-memory tiles, several results per thread"
TILE = 16
BUSY_BLOCKS = 128  # with fewer tiles most of a GPU is idle
SMALL_TILE = 8
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
    many = _results_per_thread(rows, cols, rows_hint, cols_hint)
    if max(many) > 1:
        return _LongTiles(kernel, size_names, (rows_hint, cols_hint), many).emit()
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
    row_block, col_block = longest_first(rows_hint, cols_hint, along_x(block, stage, batch))
    block.write(f"const {INDEX} {row} = {row_block} * {tile} + threadIdx.y;")
    block.write(f"const {INDEX} {col} = {col_block} * {tile} + threadIdx.x;")
    loaded_col = block.fresh(f"loaded_{col}") if crossed else col
    if crossed:
        block.write(
            f"const {INDEX} {loaded_col} = {col_block} * {tile} + threadIdx.y;  // whose neighbours lie along k"
        )
    write_batch(block, batch, along_x(block, stage, batch))
    write_phases(block, stage)
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
    with block.scope(f"if ({row} < {rows_text} && {col} < {cols_text})"), when_inside(block, stage):
        if stage.buffer is not None:
            place = block.printer.offset(stage.buffer, stage.index)
            block.write(f"{stage.buffer.name}[{place}] = {local};")
        for store in kernel.stores:
            write_store(block, store)
    decode_used(block, head, (row, rows), (col, cols))
    blocks = grid(block, batch, stage, tile_count(rows_text, tile), tile_count(cols_text, tile), row_block)
    setup = (f"const dim3 threads({tile}, {tile});", f"const dim3 blocks({', '.join(blocks)});")
    return finish(kernel, TILED, block, setup, size_names)


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


class _LongTiles:
    """Tiles of 16 rows and several times 16 columns, or the other way round: a thread has one result in each 16."""

    def __init__(self, kernel: Kernel, size_names: Sequence[str], hints: tuple[int, int], many: tuple[int, int]):
        self.kernel, self.size_names, self.stage, parts = kernel, size_names, kernel.reductions[0], partition(kernel)
        assert parts is not None and self.stage.contraction is not None
        self.batch, self.rows, self.cols = parts
        self.many, self.by_rows = max(many), many[0] > 1
        own = ["tile_row", "tile_col", "first", "i", "k", "start", "accumulators", *(v.name for v in self.stage.axes)]
        self.block = Block([*names_in(kernel, size_names), *own, self.stage.local])
        self.row = self.rows[0].name if len(self.rows) == 1 else "tile_row"
        self.col = self.cols[0].name if len(self.cols) == 1 else "tile_col"
        shared = along_x(self.block, self.stage, self.batch)
        self.row_block, self.col_block = longest_first(*hints, shared)
        contraction, stage = self.stage.contraction, self.stage
        self.left, self.right = (side(stage.index, stage.loops) for side in (contraction.left, contraction.right))
        self.crossed = len(self.cols) == 1 and _runs_along(self.right, stage.axes)

    def emit(self) -> EmittedKernel:
        block, kind = self.block, C_TYPES[self.stage.dtype]
        high, wide = (TILE * self.many, TILE) if self.by_rows else (TILE, TILE * self.many)
        block.write(f"__shared__ {kind} left_tile[{high}][{TILE}];")
        block.write(f"__shared__ {kind} right_tile[{TILE}][{wide + 32 // TILE * self.crossed}];")
        row_first, col_first = f"{self.row_block} * {high}", f"{self.col_block} * {wide}"
        block.write(f"const {INDEX} first = {row_first if self.by_rows else col_first};")
        if self.by_rows:
            block.write(f"const {INDEX} {self.col} = {col_first} + threadIdx.x;")
        else:
            block.write(f"const {INDEX} {self.row} = {row_first} + threadIdx.y;")
        write_batch(block, self.batch, along_x(block, self.stage, self.batch))
        write_phases(block, self.stage)
        rows, cols = count_text(block, self.rows), count_text(block, self.cols)
        for name, axes in ((self.row, self.rows), (self.col, self.cols)):
            if len(axes) > 1:
                block.printer.positions[flatten([of(v) for v in axes], [v.extent for v in axes])] = name
        head = len(block.lines)
        block.write()
        block.write(f"{kind} accumulators[{self.many}] = {{}};")
        depth = depth_of(block, self.stage)
        with block.scope(f"for ({INDEX} start = 0; start < {depth}; start += {TILE})"):
            self._load(rows, cols, depth)
            block.write("__syncthreads();")
            self._multiply(kind)
            block.write("__syncthreads();  // before the tiles are overwritten")
        block.write()
        name, place = (self.row, "threadIdx.y") if self.by_rows else (self.col, "threadIdx.x")
        block.printer.rename = {self.stage.local: "accumulators[i]"}
        guard = f"if ({self.row} < {rows} && {self.col} < {cols})"
        with self._each(name, place), block.scope(guard), when_inside(block, self.stage):
            if self.stage.buffer is not None:
                offset = block.printer.offset(self.stage.buffer, self.stage.index)
                block.write(f"{self.stage.buffer.name}[{offset}] = accumulators[i];")
            for store in self.kernel.stores:
                write_store(block, store)
        decode_used(block, head, (self.row, self.rows), (self.col, self.cols))
        counts = tile_count(rows, high), tile_count(cols, wide)
        blocks = grid(block, self.batch, self.stage, *counts, self.row_block)
        setup = (f"const dim3 threads({TILE}, {TILE});", f"const dim3 blocks({', '.join(blocks)});")
        return finish(self.kernel, TILED_LONG, block, setup, self.size_names)

    @contextmanager
    def _each(self, name: str, place: str) -> Iterator[None]:
        """A loop over the results of a thread on the side that has several."""
        self.block.write("#pragma unroll")
        with self.block.scope(f"for (int i = 0; i < {self.many}; ++i)"):
            self.block.write(f"const {INDEX} {name} = first + {place} + i * {TILE};")
            yield

    def _load(self, rows: str, cols: str, depth: str) -> None:
        block, y, x = self.block, "threadIdx.y", "threadIdx.x"
        if self.by_rows:
            with self._each(self.row, y):
                left_place = f"{y} + i * {TILE}", x
                _load_tile(block, "left_tile", left_place, self.left, self.stage, f"{self.row} < {rows}", depth)
        else:
            _load_tile(block, "left_tile", (y, x), self.left, self.stage, f"{self.row} < {rows}", depth)
        along, across = (x, y) if self.crossed else (y, x)  # of the right tile; neighbours in memory lie along x
        if not self.by_rows:
            with self._each(self.col, across):
                right_place = along, f"{across} + i * {TILE}"
                _load_tile(block, "right_tile", right_place, self.right, self.stage, f"{self.col} < {cols}", depth)
            return
        if self.crossed:
            loaded = block.fresh(f"loaded_{self.col}")
            block.write(f"const {INDEX} {loaded} = {self.col} - {x} + {y};  // whose neighbours lie along k")
            block.printer.rename = {self.col: loaded}
        column = (block.printer.rename or {}).get(self.col, self.col)
        _load_tile(block, "right_tile", (along, across), self.right, self.stage, f"{column} < {cols}", depth)
        block.printer.rename = None

    def _multiply(self, kind: str) -> None:
        block = self.block
        left, right = "left_tile[threadIdx.y{}][k]", "right_tile[k][threadIdx.x{}]"
        shared, own = (right, left) if self.by_rows else (left, right)
        block.write("#pragma unroll")
        with block.scope(f"for (int k = 0; k < {TILE}; ++k)"):
            block.write(f"const {kind} factor = {shared.format('')};")
            block.write("#pragma unroll")
            step = own.format(f" + i * {TILE}")
            block.write(f"for (int i = 0; i < {self.many}; ++i) accumulators[i] += factor * {step};")


def longest_first(rows: int, cols: int, shared: str = "") -> tuple[str, str]:
    """The blocks of rows and of columns: the more of them along x, since only a grid's x has more than 65,535. There,
    `shared` blocks lie side by side that have the same rows and columns."""
    along_x = f"blockIdx.x / {shared}" if shared else "blockIdx.x"
    return (along_x, "blockIdx.y") if rows > cols else ("blockIdx.y", along_x)


def along_x(block: Block, stage: Reduce, batch: tuple[Variable, ...]) -> str:
    """How many blocks lie side by side along x that differ by their phase or group alone: phases read the same places
    and store next to each other, so they meet in the cache. "" where the batch goes along z."""
    text = count_text(block, batch) if stage.contraction is not None and stage.contraction.shared else ""
    return text if text.isalnum() or not text else f"({text})"


def write_batch(block: Block, batch: tuple[Variable, ...], shared: str = "") -> None:
    """The batch axes from the grid's third dimension, or from the first if blocks that share a tile lie along it."""
    number = f"blockIdx.x % {shared}" if shared else "blockIdx.z"
    if len(batch) == 1:
        block.write(f"const {INDEX} {batch[0].name} = {number};")
    elif batch:
        if shared:
            block.write(f"const {INDEX} {(number := block.fresh('phase'))} = blockIdx.x % {shared};")
        decode(block, number, batch, frozenset(batch))


def write_phases(block: Block, stage: Reduce) -> None:
    """What depends on a block's phase alone: how many taps it has, the first of them, and where that reads."""
    if stage.contraction is None:
        return
    shared, counts = frozenset(stage.contraction.shared), {axis.extent: axis.name for axis in stage.axes}
    operands = [side(stage.index, stage.loops) for side in (stage.contraction.left, stage.contraction.right)]
    formulas = [formula for operand in operands for node in operand.walk() for formula in node.formulas]
    for formula in (*counts, *formulas):
        for atom in reversed(list(formula.atoms())):
            found = of(atom)
            if not isinstance(atom, Operation) or not found.variables or not found.variables <= shared:
                continue
            if found not in block.printer.positions:
                letter = min(variable.name for variable in found.variables)[-1]
                name = f"{counts[found]}_count" if found in counts else "first_tap" if atom.kind == "%" else "moved"
                block.name_formula(found, name if found in counts else f"{name}_{letter}")


def grid(
    block: Block, batch: tuple[Variable, ...], stage: Reduce, rows: str, cols: str, row_block: str
) -> tuple[str, ...]:
    """The extents of a grid with so many tiles of rows and columns."""
    shared = along_x(block, stage, batch)
    blocks = (cols, rows) if row_block == "blockIdx.y" else (rows, cols)
    if shared:
        return f"{shared} * {blocks[0] if blocks[0].isalnum() else f'({blocks[0]})'}", blocks[1]
    return (*blocks, count_text(block, batch)) if batch else blocks


@contextmanager
def when_inside(block: Block, stage: Reduce) -> Iterator[None]:
    """What is stored only where a point is inside of the result: the last places of some phases are not."""
    shared, extents = (stage.contraction.shared, stage.contraction.extents) if stage.contraction else ((), ())
    tests = [t for at, extent in zip(stage.index, extents, strict=False) if shared for t in within(at, extent)]
    condition = " && ".join(f"{block.index(t.left)} {t.relation} {block.index(t.right)}" for t in tests)
    with block.scope(f"if ({condition})") if tests else nullcontext():
        yield


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
