"""Large matrix products, and convolutions written as such: tiles in shared memory, their products in registers.

The scheme of CUTLASS's SIMT kernels (Kerr et al., "CUTLASS: Fast Linear Algebra in CUDA C++", 2017): a block computes a
tile of the output and each thread a rectangle of it in registers, so that a value from shared memory is used several
times. Tensor cores multiply at the same accuracy if each factor is the sum of two TF32 numbers, of whose products the
least is left out, and if sums of a few products are added up outside of them, where they are rounded to nearest (Ootomo
and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
performance", 2022).
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from musadata.compiler.emission.block import UNROLL, Block, decode_used
from musadata.compiler.emission.cpp import total, vector_functions
from musadata.compiler.emission.launch import EmittedKernel, count_of, finish
from musadata.compiler.emission.stored_vectors import StoredVectors
from musadata.compiler.emission.tile_operands import (
    BlockTile,
    Operand,
    alignment,
    flat_name,
    goes_by_taps,
    is_multiple,
    load_functions,
    own_names,
    read_operands,
    write_grid,
    write_places,
    write_slices,
)
from musadata.compiler.emission.tiled import (
    parts_of,
    places_of_block,
    tile_of,
    write_depth,
    write_entry,
    write_results,
)
from musadata.compiler.ir.code import (
    THREAD_X,
    UNARY,
    Binary,
    Braces,
    Comment,
    Expression,
    Group,
    Name,
    Unary,
    apply,
    bracketed,
    code,
)
from musadata.compiler.ir.index_formulas import Variable, product
from musadata.compiler.ir.schedule import Schedule, Stage, Step, TensorCore, Tile, Unroll
from musadata.compiler.lowering.fusion import Kernel
from musadata.tracing.roofline import H100, Unit

_NAMES = ["thread_row", "thread_col", "first", "part", "warp_row", "warp_col"]
_PADDING = 4  # floats at the end of a tile's row, so that threads which write a column reach different banks


@dataclass(frozen=True)
class RegisterTile(BlockTile):
    """A tile of which each thread computes `thread_rows` x `thread_cols`. `cores`: tensor cores multiply, and a warp
    computes eight times as many rows and four times as many columns."""

    thread_rows: int
    thread_cols: int
    cores: bool = False

    @property
    def threads(self) -> int:
        return self.rows // self.thread_rows * (self.cols // self.thread_cols)

    @property
    def bounds(self) -> int | tuple[int, int]:
        """What the compiler is told: with tensor cores a thread has 64 registers beside those of its sums."""
        registers = 64 + self.thread_rows * self.thread_cols
        return (self.threads, H100.registers // registers // self.threads) if self.cores else self.threads

    @property
    def work(self) -> tuple[float, float, float]:
        if self.cores:
            return 2 / H100.rate(Unit.SPLIT), 1 / (8 * self.thread_rows) + 1 / (4 * self.thread_cols), 4
        words = 1 / self.thread_rows + 1 / self.thread_cols / 4  # lanes beside each other share the left one
        return 2 / H100.fp32, words, 4

    def steps(self, sizes: tuple[int, int, int], by_taps: bool = False) -> tuple[Step, ...]:
        own = self.thread_rows, self.thread_cols
        tile = tile_of(self.rows, self.cols, self.depth, *sizes[1:], by_taps)
        sums = TensorCore("factors", 8 * own[0], 4 * own[1]) if self.cores else Unroll("sums", own[0] * own[1], *own)
        return tile, Stage("operands", "shared", 2), sums

    def place(self, line: str, counter: str) -> Expression:
        """That of a thread's row or column `counter`: groups of four, spread evenly over the tile, or as fragments have
        them."""
        one = Name(counter)
        if self.cores:
            return one * 8 if line == "row" else one / 2 * 8 + one % 2
        share, extent = (self.thread_rows, self.rows) if line == "row" else (self.thread_cols, self.cols)
        return one if share == 4 else one / 4 * (extent * 4 // share) + one % 4


LARGE, MEDIUM = RegisterTile(128, 128, 16, 8, 8), RegisterTile(64, 64, 16, 8, 4)
_SMALL = (RegisterTile(64, 32, 16, 4, 4), RegisterTile(32, 64, 16, 4, 4))
SHAPES = (
    LARGE,
    RegisterTile(96, 96, 16, 12, 4),
    MEDIUM,
    RegisterTile(128, 32, 16, 8, 4),
    RegisterTile(32, 128, 16, 4, 8),
    *_SMALL,
)
# Others for the same, on tensor cores.
_SIDES = ((128, 128), (96, 96), (64, 128), (128, 64), (64, 64), (128, 32), (32, 128), (64, 32), (32, 64))
_ROWS = {(128, 128): 8, (96, 96): 12, (64, 128): 8, (128, 64): 8}  # of a thread; four elsewhere
CORE_SHAPES = [RegisterTile(*sides, 16, _ROWS.get(sides, 4), 8, cores=True) for sides in _SIDES]
# Tiles that hold all of few rows or columns, so that the operand with the many others is read once.
FEW = 16
FEW_SHAPES = (RegisterTile(FEW, 128, 32, 4, 4), RegisterTile(128, FEW, 32, 4, 4))


def fitted(tile: RegisterTile, kernel: Kernel, channels: int) -> RegisterTile:
    """The tile with slices of half the depth, if the last one of a sum, or of a tap's channels, would be half empty."""
    axes, half = kernel.reductions[0].axes, tile.depth // 2
    is_by_taps = axes[1:] and any(operand.group == 1 for operand in read_operands(Block(()), kernel, "float32"))
    length = channels if is_by_taps else product(axis.extent for axis in axes).constant
    is_whole = all(side * half % (4 * tile.threads) == 0 for side in (tile.rows, tile.cols))
    is_halved = is_whole and length and 0 < length % tile.depth <= half and goes_by_taps(length, half)
    return replace(tile, depth=half) if is_halved else tile


def emit_register_tiled(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """A block per tile of the output; each thread keeps a rectangle of sums in registers."""
    stage = kernel.reductions[0]
    whole, warp, share = schedule.get(Tile), schedule.find(TensorCore), schedule.find(Unroll)
    own = (warp.rows // 8, warp.cols // 4) if warp else (share.rows, share.cols) if share else (0, 0)
    tile = RegisterTile(*whole.sides, *own, warp is not None)
    names = [*own_names(kernel.axes), *(v.name for v in stage.axes), *_NAMES, stage.local]
    block = Block.of(kernel, schedule, names)
    operands = read_operands(block, kernel, "float32", tile.depth if whole.by_taps else 0)
    _write_positions(block, tile, operands, *places_of_block(block, kernel, whole))
    write_places(block, tile, operands)
    write_entry(block, kernel)
    if aligned := alignment(block, operands):
        block.declare("aligned", aligned, "bool")
    block.array("float", "sums", tile.thread_rows, tile.thread_cols, value=Braces())
    depth = write_depth(block, kernel, (tile.rows, tile.cols), operands[0].along_sum)
    block.blank()
    current, (row, col) = Name("current"), (f" + {tile.place(line, 'i')}" for line in ("row", "col"))

    def multiply() -> None:
        if not tile.cores:
            block.paste("register_products", tile=tile, row=row, col=col)
            return
        tiles = Name("left_tile")[current], Name("right_tile")[current]
        block.run("multiply_slice", "sums", *tiles, "thread_row", Name("warp_col") + THREAD_X % 32 / 4)

    write_slices(
        block,
        tile,
        operands,
        depth,
        multiply,
        lambda operand: _put_away(block, tile, operand),
    )
    block.blank()
    stores = _write_results(block, kernel, tile)
    setup = write_grid(block, kernel, tile, operands, whole.rows_first)
    functions = [*load_functions(operands), *stores]
    functions += vector_functions("float32", "split", "multiply_split", "multiply_slice") if tile.cores else []
    return finish(kernel, schedule, block, setup, threads=(tile.threads,), helpers=functions, bounds=tile.bounds)


def _write_positions(
    block: Block, tile: RegisterTile, operands: Sequence[Operand], row_block: Expression, col_block: Expression
) -> None:
    padding = 2 * _PADDING if tile.cores else _PADDING
    for operand in operands:
        block.shared("float", f"{operand.side}_tile", 2, tile.depth, operand.extent(tile) + padding, aligned=True)
    block.declare("first_row", row_block * tile.rows)
    block.declare("first_col", col_block * tile.cols)
    if tile.cores:
        warp_rows, warp_cols = 8 * tile.thread_rows, 4 * tile.thread_cols
        block.paste("split_places", rows=warp_rows, cols=warp_cols, across=tile.cols // warp_cols)
        return
    across, warp = tile.cols // tile.thread_cols, THREAD_X / 32
    beside = math.gcd(8, across)
    down, across = 32 // beside, across // beside
    block.add(Comment(f"The rectangles of a warp lie {down} x {beside}, so that its reads from shared memory are few."))
    lane = THREAD_X % 32 / beside
    block.declare("thread_row", (THREAD_X / (32 * across) * down + lane if tile.threads > 32 * across else lane) * 4)
    block.declare("thread_col", (warp % across * beside + THREAD_X % beside if across > 1 else THREAD_X % beside) * 4)


def _put_away(block: Block, tile: RegisterTile, operand: Operand) -> None:
    k, line = operand.place(tile)
    at, source = Name(f"{operand.side}_tile")[Binary(Name("current"), "^", code(1))], Name(f"{operand.side}_next")["i"]
    if tile.cores:  # lines of four vectors along k go to different banks
        line = Binary(Group(line) if isinstance(line, Binary) else line, "^", bracketed(k, UNARY) / 4 * 8 % 32)
    if operand.group == 1:
        block.assign(at[k][line], source)
    elif operand.along_depth:
        for part, letter in enumerate("xyzw"):
            block.assign(at[k + part][line], source.member(letter))
    else:
        block.assign(Unary("*", apply("reinterpret_cast<float4*>", Unary("&", at[k][line]))), source)


def _write_results(block: Block, kernel: Kernel, tile: RegisterTile) -> list[str]:
    """What is made of the sums; the functions that store it."""
    _, rows, cols = parts_of(kernel)
    vectors = StoredVectors.of(block, kernel, cols, "float32")
    if vectors.operands and len(cols) == 1 and not tile.cores:
        _write_vectors(block, kernel, tile, vectors)
        return vectors.functions
    sides = [
        ("i", flat_name("left", rows), rows, "row"),
        ("j", flat_name("right", cols), cols, "col"),
    ]
    outer, inner = sides[::-1] if len(cols) > len(rows) else sides  # what takes divisions is worked out less often
    with _result_loop(block, tile, outer):
        head = len(block.body)
        with _result_loop(block, tile, inner):
            place = len(block.body)
            block.printer.rename = {kernel.reductions[0].local: Name("sums")["i"]["j"]}
            write_results(block, kernel)
            decode_used(block, place, (inner[1], inner[2]))
        decode_used(block, head, (outer[1], outer[2]))
    return []


def _write_vectors(block: Block, kernel: Kernel, tile: RegisterTile, vectors: StoredVectors) -> None:
    """A thread's rows, and groups of neighbouring columns of each."""
    (_, rows, cols), is_one = parts_of(kernel), tile.thread_cols == vectors.width
    row, group, first = flat_name("left", rows), Name("j"), Name("first_col") + "thread_col"
    column = Name("part") if is_one else group + "part"
    vectors.declare(block)
    with _result_loop(block, tile, ("i", row, rows, "row")):
        head = len(block.body)
        block.printer.rename = {kernel.reductions[0].local: Name("sums")["i"][column]}
        with nullcontext() if is_one else block.loop("j", 0, tile.thread_cols, vectors.width, unroll=UNROLL):
            block.declare("first", first if is_one else first + group * (tile.cols // tile.thread_cols))
            _leave_outside(block, "first", cols, tile.cols)
            block.name_flat(cols, cols[0].name)
            vectors.write(block, "part", lambda: None)
        decode_used(block, head, (row, rows))


@contextmanager
def _result_loop(block: Block, tile: RegisterTile, side: tuple[str, str, tuple[Variable, ...], str]) -> Iterator[None]:
    """A loop over a thread's rows or columns, as far as they are inside of the result."""
    counter, name, axes, line = side
    share, extent = (tile.thread_rows, tile.rows) if line == "row" else (tile.thread_cols, tile.cols)
    with block.unrolled(counter, share):
        own = ("+", Name(f"first_{line}")), ("+", Name(f"thread_{line}")), ("+", tile.place(line, counter))
        block.declare(name, total(own))
        _leave_outside(block, name, axes, extent)
        block.name_flat(axes, name)
        yield


def _leave_outside(block: Block, name: str, axes: tuple[Variable, ...], extent: int) -> None:
    """Go on where a position is outside of the result, unless whole tiles cover it."""
    count = count_of(block, axes)
    if not is_multiple(count, extent):
        block.leave(Name(name) >= count, "continue")
