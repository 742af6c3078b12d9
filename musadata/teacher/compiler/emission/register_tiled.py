"""Large matrix products, and convolutions written as such: tiles in shared memory, their products in registers.

The scheme of CUTLASS's SIMT kernels (Kerr et al., "CUTLASS: Fast Linear Algebra in CUDA C++", 2017): a block computes a
tile of the output and each thread a rectangle of it in registers, so that a value from shared memory is used several
times; while one slice of the operands is multiplied, the next is on its way from global memory.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from musadata.teacher.compiler.emission.cpp import LOAD_FOUR
from musadata.teacher.compiler.emission.launch import EmittedKernel, count_text, finish
from musadata.teacher.compiler.emission.pointwise import names_in, write_store
from musadata.teacher.compiler.emission.statements import INDEX, Block
from musadata.teacher.compiler.emission.tiled import (
    decode_used,
    longest_first,
    partition,
    tile_count,
    write_batch,
)
from musadata.teacher.compiler.ir.index_formulas import (
    ZERO,
    Index,
    Size,
    Variable,
    divide,
    of,
    product,
    rename_variables,
)
from musadata.teacher.compiler.ir.scalar import Load, Scalar
from musadata.teacher.compiler.lowering.fusion import Kernel, Reduce
from musadata.teacher.compiler.lowering.layout import flatten

_LONG = 8  # elements side by side: a sector of memory
_PADDING = 4  # floats at the end of a tile's row, so that threads which write a column reach different banks


@dataclass(frozen=True)
class TileShape:
    """A block's tile is `rows` x `cols`, in slices of `depth`; each thread has `thread_rows` x `thread_cols` of it."""

    rows: int
    cols: int
    depth: int
    thread_rows: int
    thread_cols: int

    @property
    def threads(self) -> int:
        return self.rows // self.thread_rows * (self.cols // self.thread_cols)

    def blocks(self, rows: int, cols: int) -> int:
        return -(-rows // self.rows) * -(-cols // self.cols)


LARGE, MEDIUM = TileShape(128, 128, 16, 8, 8), TileShape(64, 64, 16, 8, 4)
_SHAPES = (LARGE, TileShape(64, 128, 8, 8, 8), TileShape(128, 64, 8, 8, 8), MEDIUM)  # the larger, the less traffic
# The same where some operand is moved element by element, which takes more registers.
_ELEMENTWISE = {LARGE: replace(LARGE, depth=8)}
_BUSY_BLOCKS = 128  # with fewer tiles most of a GPU is idle
_MOST_IDLE = 1.25  # the work of a shape's tiles, beyond that of the shape that fits best


def choose_tile(batch: int, rows: int, cols: int) -> TileShape:
    """The largest tile of which there are enough, and which does not stick out of the result too far."""
    work = {shape: shape.blocks(rows, cols) * shape.rows * shape.cols for shape in _SHAPES}
    fitting = [shape for shape in _SHAPES if work[shape] <= _MOST_IDLE * min(work.values())]
    return next((shape for shape in fitting if batch * shape.blocks(rows, cols) >= _BUSY_BLOCKS), fitting[-1])


@dataclass(frozen=True)
class _Operand:
    """One side of the product, and how the threads of a block bring a tile of it.

    Attributes:
        side: left or right.
        value: its element at (`axes`, `inner`).
        axis: the name of the flat position over `axes`, which has `count` points.
        along_depth: neighbouring threads walk along the inner axes.
        base: the offset of its first element along the direction in which it is contiguous, if it is moved in fours.
    """

    side: str
    value: Scalar
    axes: tuple[Variable, ...]
    inner: tuple[Variable, ...]
    axis: str
    count: str

    @cached_property
    def along_depth(self) -> bool:
        """A short walk, such as along a row of a convolution's window, is not worth it."""
        return _walk(self.value, self.inner) >= _LONG and _walk(self.value, self.axes) < _LONG

    @cached_property
    def base(self) -> Index | None:
        if not isinstance(self.value, Load) or self.value.buffer.dtype != "float32" or self.value.children:
            return None
        rest = flatten(list(self.value.index), list(self.value.buffer.shape)) - _flat(self.moving)
        is_ragged = (product(v.extent for v in self.moving).constant or 0) % 4 != 0
        return None if is_ragged or rest.variables & frozenset(self.moving) or _strides(rest) is None else rest

    @property
    def moving(self) -> tuple[Variable, ...]:
        """The axes along which neighbouring threads walk."""
        return self.inner if self.along_depth else self.axes

    @property
    def buffer(self) -> str:
        assert isinstance(self.value, Load)
        return self.value.buffer.name

    @property
    def line(self) -> str:
        """The variable that holds a thread's row or column of the tile."""
        return "left_row" if self.side == "left" else "right_col"

    @property
    def first(self) -> str:
        return "first_row" if self.side == "left" else "first_col"

    def extent(self, tile: TileShape) -> int:
        return tile.rows if self.side == "left" else tile.cols

    def width(self, tile: TileShape) -> int:
        """How many threads move one line of the tile."""
        return (tile.depth if self.along_depth else self.extent(tile)) // (4 if self.base is not None else 1)

    def steps(self, tile: TileShape) -> int:
        """Elements, or groups of four, that each thread brings."""
        return self.extent(tile) * tile.depth // tile.threads // (4 if self.base is not None else 1)

    def place(self, tile: TileShape) -> tuple[str, str]:
        """Where in the tile a thread's element i is: (depth, row or column)."""
        lines = tile.threads // self.width(tile)
        step = "" if self.steps(tile) == 1 else " + i" if lines == 1 else f" + i * {lines}"
        k = f"{self.side}_k"
        if lines == 1 and not self.along_depth:
            return step.removeprefix(" + ") or "0", self.line
        return (k, self.line + step) if self.along_depth else (k + step, self.line)


def _flat(axes: Sequence[Variable]) -> Index:
    return flatten([of(v) for v in axes], [v.extent for v in axes])


def _strides(offset: Index) -> list[Index] | None:
    """What must be a multiple of four for an offset to be one; None if it never is, or is no plain sum."""
    found: list[Index] = []
    for monomial, coefficient in offset.terms:
        sizes = [atom for atom in monomial if isinstance(atom, Size)]
        if len(sizes) + sum(isinstance(atom, Variable) for atom in monomial) != len(monomial):
            return None
        if coefficient % 4 == 0:
            continue
        if not sizes:
            return None
        found.append(product(of(size) for size in sizes) * coefficient)
    return [one for one in found if not any(other != one and divide(one, other)[1] == ZERO for other in found)]


def _walk(value: Scalar, axes: Sequence[Variable]) -> int:
    """How many neighbours along the axes are neighbours in memory, for some tensor that the value is made from."""
    longest = 1
    for load in value.loads:
        offset = flatten(list(load.index), list(load.buffer.shape))
        for first in range(len(axes)):
            own = axes[first:]
            if not (offset - _flat(own)).variables & frozenset(own):
                longest = max(longest, product(v.extent for v in own).constant or _LONG)
    return longest


def emit_register_tiled(
    kernel: Kernel, size_names: Sequence[str], tile: TileShape, rows_hint: int, cols_hint: int
) -> EmittedKernel:
    """A block per tile of the output; each thread keeps a rectangle of sums in registers."""
    stage = kernel.reductions[0]
    parts = partition(kernel)
    assert parts is not None and stage.contraction is not None
    batch, rows, cols = parts
    own = "tile_row tile_col first_row first_col thread_row thread_col k start next current i j sums left right aligned"
    moved = [f"{side}_{what}" for side in ("left", "right") for what in ("tile", "next", "k", "row", "col")]
    moved += [f"loaded_{name}" for name in ("tile_row", "tile_col", *(v.name for v in kernel.axes))]
    block = Block([*names_in(kernel, size_names), *(v.name for v in stage.axes), *own.split(), *moved, stage.local])
    left, right = (_operand(block, stage, side, axes) for side, axes in (("left", rows), ("right", cols)))
    if left.base is None or right.base is None:
        tile = _ELEMENTWISE.get(tile, tile)
    row_block, col_block = longest_first(rows_hint, cols_hint)
    _write_positions(block, tile, (left, right), row_block, col_block)
    write_batch(block, batch)
    moved_in_fours = [operand for operand in (left, right) if operand.base is not None]
    if moved_in_fours:
        block.write(f"const bool aligned = {_alignment(block, moved_in_fours)};")
    block.write(f"float sums[{tile.thread_rows}][{tile.thread_cols}] = {{}};")
    for operand in (left, right):
        kind = "float4" if operand.base is not None else "float"
        block.write(f"{kind} {operand.side}_next[{operand.steps(tile)}];")
    block.write()
    _write_slices(block, tile, (left, right), stage)
    block.write()
    _write_results(block, kernel, stage, tile, rows, cols)
    blocks = [tile_count(right.count, tile.cols), tile_count(left.count, tile.rows)]
    blocks = blocks[:: -1 if row_block == "blockIdx.x" else 1]
    blocks += [count_text(block, batch)] if batch else []
    setup = (f"const int threads = {tile.threads};", f"const dim3 blocks({', '.join(blocks)});")
    helpers = LOAD_FOUR if moved_in_fours else ""
    return finish(kernel, "register tiles", block, setup, size_names, helpers=helpers, bounds=tile.threads)


def _operand(block: Block, stage: Reduce, side: str, axes: tuple[Variable, ...]) -> _Operand:
    """One side. Where a thread brings the same row or column of every slice, its axes are known before the first."""
    assert stage.contraction is not None
    value = stage.contraction.left if side == "left" else stage.contraction.right
    name, count = _flat_name(side, axes), count_text(block, axes)
    operand = _Operand(side, value(stage.index, stage.loops), axes, stage.axes, name, count)
    if operand.along_depth:
        return operand
    loaded = {axis: Variable(f"loaded_{axis.name}", axis.extent) for axis in axes}
    index = tuple(rename_variables(formula, loaded) for formula in stage.index)
    value_loaded = value(index, stage.loops)
    return replace(operand, value=value_loaded, axes=tuple(loaded.values()), axis=f"loaded_{name}")


def _flat_name(side: str, axes: tuple[Variable, ...]) -> str:
    return axes[0].name if len(axes) == 1 else f"tile_{'row' if side == 'left' else 'col'}"


def _alignment(block: Block, operands: Sequence[_Operand]) -> str:
    """The condition under which all rows of these operands start at multiples of 16 bytes and are that long."""
    tests: dict[str, None] = {}
    for operand in operands:
        assert operand.base is not None
        length = product(v.extent for v in operand.moving)
        for stride in [*(_strides(operand.base) or []), *([length] if length.constant is None else [])]:
            text = block.index(stride)
            tests[f"{text if stride.atom else f'({text})'} % 4 == 0"] = None
    tests |= dict.fromkeys(f"reinterpret_cast<size_t>({operand.buffer}) % 16 == 0" for operand in operands)
    return " && ".join(tests)


def _write_positions(
    block: Block, tile: TileShape, operands: Sequence[_Operand], row_block: str, col_block: str
) -> None:
    for operand in operands:
        size = f"[2][{tile.depth}][{operand.extent(tile) + _PADDING}]"
        block.write(f"__shared__ __align__(16) float {operand.side}_tile{size};")
    block.write(f"const {INDEX} first_row = {row_block} * {tile.rows};")
    block.write(f"const {INDEX} first_col = {col_block} * {tile.cols};")
    across = tile.cols // tile.thread_cols // 8
    block.write("// A warp computes 4 x 8 rectangles, so that its reads from shared memory are few.")
    block.write(f"const {INDEX} thread_row = (threadIdx.x / {32 * across} * 4 + threadIdx.x % 32 / 8) * 4;")
    block.write(f"const {INDEX} thread_col = (threadIdx.x / 32 % {across} * 8 + threadIdx.x % 8) * 4;")
    for operand in operands:
        k, width = f"{operand.side}_k", operand.width(tile)
        four = " * 4" if operand.base is not None else ""
        if width == tile.threads and not operand.along_depth:
            block.write(f"const {INDEX} {operand.line} = threadIdx.x{four};")
            continue
        inner, outer = (k, operand.line) if operand.along_depth else (operand.line, k)
        block.write(f"const {INDEX} {inner} = threadIdx.x % {width}{four}, {outer} = threadIdx.x / {width};")


def _write_slices(block: Block, tile: TileShape, operands: Sequence[_Operand], stage: Reduce) -> None:
    """The loop over the slices: fetch the next, multiply the current one, put the next away."""
    depth = count_text(block, stage.axes)
    fixed = [operand for operand in operands if not operand.along_depth]
    for operand in fixed:
        block.write(f"const {INDEX} {operand.axis} = {operand.first} + {operand.line};")
        if len(operand.axes) > 1:
            block.printer.positions[_flat(operand.axes)] = operand.axis
    head = len(block.lines)
    with block.scope(f"for ({INDEX} start = -{tile.depth}, current = 1; start < {depth}; start += {tile.depth})"):
        block.write(f"const {INDEX} next = start + {tile.depth};")
        with block.scope(f"if (next < {depth})"):
            for operand in operands:
                _fetch(block, tile, operand, depth)
        with block.scope("if (start >= 0)"):
            _multiply(block, tile)
        with block.scope(f"if (next < {depth})"):
            for operand in operands:
                _put_away(block, tile, operand)
        block.write("__syncthreads();  // the next slice is complete, and nobody reads the last one any more")
        block.write("current ^= 1;")
    decode_used(block, head, *((operand.axis, operand.axes) for operand in fixed))


def _fetch(block: Block, tile: TileShape, operand: _Operand, depth: str) -> None:
    """Bring a thread's elements of the next slice into registers; outside of the operand they are 0."""
    flat = operand.inner[0].name if len(operand.inner) == 1 else "k"
    k, line = operand.place(tile)
    target = f"{operand.side}_next[i]"
    block.write("#pragma unroll")
    with block.scope(f"for (int i = 0; i < {operand.steps(tile)}; ++i)"):
        if operand.along_depth:
            block.write(f"const {INDEX} {operand.axis} = {operand.first} + {line};")
        block.write(f"const {INDEX} {flat} = next + {k};")
        for axes, name in ((operand.axes, operand.axis), (operand.inner, flat)):
            if len(axes) > 1:
                block.printer.positions[_flat(axes)] = name
        if operand.base is not None:
            _fetch_four(block, operand, target, flat, depth)
            return
        block.write(f"{target} = 0.0f;")
        with block.scope(f"if ({operand.axis} < {operand.count} && {flat} < {depth})"):
            head = len(block.lines)
            block.write(f"{target} = {block.value(operand.value)};")
            decode_used(block, head, *_decoded(operand, flat))


def _fetch_four(block: Block, operand: _Operand, target: str, flat: str, depth: str) -> None:
    assert isinstance(operand.value, Load)
    offset = block.printer.offset(operand.value.buffer, operand.value.index)
    source = f"{operand.buffer} + {offset}"
    inside, (end, at) = (
        (f"{operand.axis} < {operand.count}", (depth, flat))
        if operand.along_depth
        else (f"{flat} < {depth}", (operand.count, operand.axis))
    )
    head = len(block.lines)
    block.write(f"{target} = load_four({source}, {inside} ? {end} - {at} : 0, aligned);")
    decode_used(block, head, *_decoded(operand, flat))


def _decoded(operand: _Operand, flat: str) -> list[tuple[str, tuple[Variable, ...]]]:
    """The flat positions that change from slice to slice, and their axes."""
    return [*([(operand.axis, operand.axes)] if operand.along_depth else []), (flat, operand.inner)]


def _put_away(block: Block, tile: TileShape, operand: _Operand) -> None:
    k, line = operand.place(tile)
    at, source = f"{operand.side}_tile[current ^ 1]", f"{operand.side}_next[i]"
    block.write("#pragma unroll")
    with block.scope(f"for (int i = 0; i < {operand.steps(tile)}; ++i)"):
        if operand.base is None:
            block.write(f"{at}[{k}][{line}] = {source};")
        elif operand.along_depth:
            for part, letter in enumerate("xyzw"):
                block.write(f"{at}[{k} + {part}][{line}] = {source}.{letter};")
        else:
            block.write(f"*reinterpret_cast<float4*>(&{at}[{k}][{line}]) = {source};")


def _part(counter: str, share: int, extent: int) -> str:
    """The place of a thread's row or column `counter`: groups of four, spread evenly over the tile."""
    return f" + {counter}" if share == 4 else f" + {counter} / 4 * {extent * 4 // share} + {counter} % 4"


def _multiply(block: Block, tile: TileShape) -> None:
    """Add the products of the current slice: for each k a column of the left tile times a row of the right one."""
    sides = (("left", "row", tile.thread_rows, tile.rows), ("right", "col", tile.thread_cols, tile.cols))
    block.write("#pragma unroll")
    with block.scope(f"for (int k = 0; k < {tile.depth}; ++k)"):
        block.write(f"float left[{tile.thread_rows}], right[{tile.thread_cols}];")
        for side, line, share, extent in sides:
            place = f"thread_{line}{_part('i', share, extent)}"
            block.write("#pragma unroll")
            block.write(f"for (int i = 0; i < {share}; ++i) {side}[i] = {side}_tile[current][k][{place}];")
        block.write("#pragma unroll")
        with block.scope(f"for (int i = 0; i < {tile.thread_rows}; ++i)"):
            block.write("#pragma unroll")
            block.write(f"for (int j = 0; j < {tile.thread_cols}; ++j) sums[i][j] += left[i] * right[j];")


def _write_results(
    block: Block,
    kernel: Kernel,
    stage: Reduce,
    tile: TileShape,
    rows: tuple[Variable, ...],
    cols: tuple[Variable, ...],
) -> None:
    sides = [
        ("i", _flat_name("left", rows), rows, "row", tile.thread_rows, tile.rows),
        ("j", _flat_name("right", cols), cols, "col", tile.thread_cols, tile.cols),
    ]
    outer, inner = sides if len(rows) > len(cols) else sides[::-1]  # what takes divisions is worked out less often
    with _result_loop(block, outer):
        head = len(block.lines)
        with _result_loop(block, inner):
            place = len(block.lines)
            block.printer.rename = {stage.local: "sums[i][j]"}
            if stage.buffer is not None:
                block.write(f"{stage.buffer.name}[{block.printer.offset(stage.buffer, stage.index)}] = sums[i][j];")
            for store in kernel.stores:
                write_store(block, store)
            decode_used(block, place, (inner[1], inner[2]))
        decode_used(block, head, (outer[1], outer[2]))


@contextmanager
def _result_loop(block: Block, side: tuple[str, str, tuple[Variable, ...], str, int, int]) -> Iterator[None]:
    """A loop over a thread's rows or columns, as far as they are inside of the result."""
    counter, flat, axes, line, share, extent = side
    block.write("#pragma unroll")
    with block.scope(f"for (int {counter} = 0; {counter} < {share}; ++{counter})"):
        block.write(f"const {INDEX} {flat} = first_{line} + thread_{line}{_part(counter, share, extent)};")
        block.write(f"if ({flat} >= {count_text(block, axes)}) continue;")
        if len(axes) > 1:
            block.printer.positions[_flat(axes)] = flat
        yield
