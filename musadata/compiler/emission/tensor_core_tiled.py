"""Large products of half types on tensor cores, by the instructions `ldmatrix` and `mma.sync`; sums are float.

A warp multiplies fragments of 16 x 16 and 16 x 8 elements and keeps the sums of a rectangle in registers. Its results
pass through shared memory, 16 rows at a time, so that a thread has eight neighbours, which it stores at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from musadata.compiler.emission.block import UNROLL, Block, decode_used
from musadata.compiler.emission.cpp import C_TYPES, total, vector_functions
from musadata.compiler.emission.launch import EmittedKernel, count_of, finish
from musadata.compiler.emission.stored_vectors import StoredVectors
from musadata.compiler.emission.tile_operands import (
    STAGES,
    BlockTile,
    Operand,
    alignment,
    flat_name,
    load_functions,
    own_names,
    read_operands,
    write_fetch,
    write_grid,
    write_places,
)
from musadata.compiler.emission.tiled import (
    parts_of,
    places_of_block,
    tile_of,
    write_depth,
    write_entry,
    write_results,
)
from musadata.compiler.ir.code import THREAD_X, Braces, Expression, Name, apply, every, product
from musadata.compiler.ir.scalar import Choose, Load, Scalar
from musadata.compiler.ir.schedule import Prefetch, Schedule, Stage, Step, TensorCore, Tile
from musadata.compiler.lowering.fusion import Kernel
from musadata.tracing.roofline import H100

_SWIZZLED = 64  # elements of a line among which eight at a time change places
_SIDE = 16  # of a fragment, but for the columns of the right operand's and of the sums': eight
_PADDING = 8  # floats at the end of a line of results, so that the lines that a warp writes reach different banks
_PLACES = ("warp", "lane", "warp_row", "warp_col", "line", "at", "first", "whole")
_NAMES = (*_PLACES, "tiles", "slice", "next_slice", "load", "to", "now", "results", "sum")


@dataclass(frozen=True)
class FragmentTile(BlockTile):
    """A tile of which each warp computes `warp_rows` x `warp_cols`. `ahead`: fragments are loaded while those before
    them are multiplied, which pays where a multiprocessor has no second block to go on with meanwhile."""

    warp_rows: int
    warp_cols: int
    ahead: bool = False

    @property
    def threads(self) -> int:
        return self.rows // self.warp_rows * (self.cols // self.warp_cols) * 32

    @property
    def work(self) -> tuple[float, float, float]:
        return 2 / H100.tensor, 1 / 512, 2

    def steps(self, sizes: tuple[int, int, int], by_taps: bool = False) -> tuple[Step, ...]:
        tile = tile_of(self.rows, self.cols, self.depth, *sizes[1:], by_taps)
        steps = (tile, Stage("operands", "shared", STAGES), TensorCore("sums", self.warp_rows, self.warp_cols))
        return (*steps, Prefetch("operands")) if self.ahead else steps

    @property
    def fragments(self) -> tuple[int, int]:
        """Of a warp's sums: down and across."""
        return self.warp_rows // _SIDE, self.warp_cols // 8


# Slices of 64: on an H200, a product of 4096 in float16 reached 0.51 of cuBLAS with them, 0.44 with slices of 32.
SHAPES = (
    FragmentTile(128, 128, 64, 64, 64),
    FragmentTile(192, 96, 64, 64, 48),
    FragmentTile(128, 64, 64, 64, 32),
    FragmentTile(64, 128, 64, 32, 64),
    FragmentTile(64, 64, 64, 32, 32),
    FragmentTile(32, 128, 64, 32, 32),
    FragmentTile(128, 32, 64, 32, 32),
)
WIDE_SHAPES = (FragmentTile(128, 256, 64, 64, 64, ahead=True), *SHAPES)  # loads less; there is room for one block
FEWEST = 16  # lines of the lesser side: with fewer, most of a narrow tile would be idle


def half_type(kernel: Kernel) -> str:
    """The half type that both operands have, and all results that are not float; "" if there is none."""
    stage = kernel.reductions[0]
    assert stage.contraction is not None
    rounded = {stage.contraction.dtype} | {buffer.dtype for buffer in kernel.outputs} - {"float32"}
    if len(rounded) == 1 and rounded <= {"float16", "bfloat16"}:
        return stage.contraction.dtype
    return half_type_of(stage.operands, kernel)


def half_type_of(operands: Sequence[Scalar], kernel: Kernel) -> str:
    """The half type that operands have in memory, and all results of the kernel that are not float."""
    results = {buffer.dtype for buffer in kernel.outputs} - {"float32"}
    types = {_memory_type(value) for value in operands} | results
    return types.pop() if len(types) == 1 and types <= {"float16", "bfloat16"} else ""


def _memory_type(value: Scalar) -> str:
    """The type of the element that a value is, or is where it is not 0; "" for one that is computed."""
    load = value.yes if isinstance(value, Choose) else value
    return load.buffer.dtype if isinstance(load, Load) else ""


def emit_tensor_core_tiled(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """A block per tile of the output; each warp keeps a rectangle of sums in fragments."""
    return _OnTensorCores(kernel, schedule).emit()


class _OnTensorCores:
    """The kernel under construction."""

    def __init__(self, kernel: Kernel, schedule: Schedule):
        self.kernel, self.schedule, self.stage = kernel, schedule, kernel.reductions[0]
        core, ahead = schedule.get(TensorCore), schedule.find(Prefetch) is not None
        self.tile = FragmentTile(*schedule.get(Tile).sides, core.rows, core.cols, ahead)
        self.dtype, (_, self.rows, self.cols) = half_type(kernel), parts_of(kernel)
        own = [*own_names(kernel.axes), *(v.name for v in self.stage.axes), *_NAMES, self.stage.local]
        block = self.block = Block.of(kernel, schedule, own)
        self.vectors = StoredVectors.of(block, kernel, self.cols, self.dtype)
        depth = self.tile.depth if schedule.get(Tile).by_taps else 0
        self.operands = read_operands(block, kernel, self.dtype, depth)

    def emit(self) -> EmittedKernel:
        """Fetch slices, multiply them, and store what is made of the sums."""
        block, tile, operands, whole = self.block, self.tile, self.operands, self.schedule.get(Tile)
        shared = self._write_tiles()
        row_block, col_block = places_of_block(block, self.kernel, whole)
        block.declare("first_row", row_block * tile.rows)
        block.declare("first_col", col_block * tile.cols)
        across, warp = tile.cols // tile.warp_cols, Name("warp")
        block.declare_all(warp=THREAD_X / 32, lane=THREAD_X % 32)
        block.declare("warp_row", warp / across * tile.warp_rows)
        block.declare("warp_col", warp % across * tile.warp_cols)
        write_places(block, tile, operands)
        write_entry(block, self.kernel)
        down, across = tile.fragments
        block.array("float", "sums", down, across, 4, value=Braces())
        depth = write_depth(block, self.kernel, (tile.rows, tile.cols), operands[0].along_sum)
        block.blank()
        write_fetch(block, tile, operands, depth, self._place)
        block.blank()
        block.paste("tensor_core_load", tile=tile, fragments=self._fragments())
        block.paste("tensor_core_loop", tile=tile, depth=depth, last=STAGES - 1, side=_SIDE)
        block.blank()
        self._write_results()
        swizzle, functions = vector_functions(self.dtype, "swizzle"), load_functions(operands, copied=True)
        loads = ["load_fragments" if operand.along_depth else "load_transposed" for operand in operands]
        used = vector_functions(self.dtype, *dict.fromkeys(loads), "multiply_fragments")
        return finish(
            self.kernel,
            self.schedule,
            block,
            write_grid(block, self.kernel, tile, operands, whole.rows_first),
            threads=(tile.threads,),
            helpers=[*swizzle, *functions, *self.vectors.functions, *used],
            bounds=tile.threads,
            aligned=alignment(block, operands, host=True),
            shared=shared,
        )

    def _write_tiles(self) -> Expression:
        """Shared memory, and its bytes."""
        block, kind, start = self.block, C_TYPES[self.dtype], [("+", Name("tiles"))]
        note = f"{STAGES} slices of both operands"
        block.array(kind, "tiles", "", prefix="extern __shared__ __align__(16) ", note=note)
        sizes: list[tuple[str, Expression]] = []
        for operand in self.operands:
            lines, length = self._layout(operand)
            place = apply(f"reinterpret_cast<{kind} (*)[{lines}][{length}]>", total([*start, *sizes]))
            block.array(kind, f"(*{operand.side}_tile)", lines, length, value=place)
            sizes.append(("+", product(STAGES, lines, length)))
        return total(sizes) * apply("sizeof", kind)

    def _layout(self, operand: Operand) -> tuple[int, int]:
        """Lines of an operand's tile, and their length: as neighbours lie in memory, and what `swizzle` exchanges."""
        extent = operand.extent(self.tile)
        return (
            (extent, self.tile.depth) if operand.along_depth else (self.tile.depth, -(-extent // _SWIZZLED) * _SWIZZLED)
        )

    def _place(self, operand: Operand, slice_number: Expression) -> Expression:
        """A thread's element i of a slice in shared memory."""
        k, line = operand.place(self.tile)
        outer, inner = (line, k) if operand.along_depth else (k, line)
        return Name(f"{operand.side}_tile")[slice_number][outer][apply("swizzle", outer, inner)]

    def _fragments(self) -> list[dict[str, object]]:
        """How the fragments of each operand are loaded."""
        counts, found = (self.tile.warp_rows // _SIDE, self.tile.warp_cols // _SIDE), []
        for operand, line, counter, count in zip(self.operands, ("warp_row", "warp_col"), "ij", counts, strict=True):
            outer, inner = f"{line} + {counter} * {_SIDE}", "k"
            if not operand.along_depth:
                outer, inner = inner, outer
            by_lines = operand.along_depth == (operand.side == "left")
            steps = ("lane % 16", "lane / 16 * 8") if by_lines else ("lane / 16 * 8 + lane % 8", "lane / 8 % 2 * 8")
            function = "load_fragments" if operand.along_depth else "load_transposed"
            places = {"line": f"{outer} + {steps[0]}", "element": f"{inner} + {steps[1]}"}
            found.append({"side": operand.side, "counter": counter, "count": count, "function": function, **places})
        return found

    def _write_results(self) -> None:
        """A warp's sums pass through shared memory, then a thread has eight neighbours of a row. If none can be stored
        at once, neighbouring threads have neighbours."""
        block, tile = self.block, self.tile
        row, col = flat_name("left", self.rows), flat_name("right", self.cols)
        vectors = self.vectors
        length = tile.warp_cols + _PADDING
        place = apply(f"reinterpret_cast<float (*)[{_SIDE}][{length}]>", "tiles")
        block.array("float", "(*results)", _SIDE, length, value=place)
        vectors.declare(block)
        with block.unrolled("i", tile.fragments[0]):
            block.paste("tensor_core_sums", tile=tile)
            for axes, name in ((self.rows, row), (self.cols, col)):
                block.name_flat(axes, name)
            self._write_lines(row, col)
            block.barrier("before the next rows take their place", "__syncwarp")

    def _write_lines(self, row: str, col: str) -> None:
        """What a warp's threads store of 16 rows."""
        block, width, vectors = self.block, self.tile.warp_cols, self.vectors
        own = vectors.width if vectors.operands else 1
        count, at, lane = count_of(block, self.cols), Name("at"), Name("lane")
        place = Name("results")["warp"][at / width]
        first = Name("first" if vectors.operands else col)
        block.printer.rename = {self.stage.local: Name("sum")}
        lanes = lane * own if own > 1 else lane
        with block.loop("at", lanes, _SIDE * width, 32 * own, unroll=UNROLL):
            block.declare(row, Name("first_row") + "warp_row" + Name("i") * _SIDE + at / width)
            block.declare(first.name, Name("first_col") + "warp_col" + at % width)
            with block.when(every(Name(row) < count_of(block, self.rows), first < count)):
                head = len(block.body)
                if vectors.operands:
                    vectors.write(block, "j", lambda: block.declare("sum", place[at % width + "j"], "float"))
                else:
                    block.declare("sum", place[at % width], "float")
                    inner = len(block.body)
                    write_results(block, self.kernel)
                    decode_used(block, inner, (col, self.cols))
                decode_used(block, head, (row, self.rows))
