"""Large products of half types on tensor cores, through the fragments of `nvcuda::wmma`; sums are float.

A warp multiplies fragments of 16 x 16 and keeps the sums of a rectangle of them. Which thread holds which element of a
fragment is unspecified, so results pass through shared memory before bias and activation.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from musadata.teacher.compiler.emission.cpp import C_TYPES
from musadata.teacher.compiler.emission.launch import EmittedKernel, count_text, finish
from musadata.teacher.compiler.emission.pointwise import names_in
from musadata.teacher.compiler.emission.statements import INDEX, Block
from musadata.teacher.compiler.emission.tile_operands import (
    STAGES,
    Operand,
    Tile,
    alignment,
    flat,
    flat_name,
    load_functions,
    own_names,
    read_operand,
    write_grid,
    write_pipeline,
    write_places,
    write_results,
)
from musadata.teacher.compiler.emission.tiled import (
    along_x,
    decode_used,
    longest_first,
    partition,
    write_batch,
    write_depth,
    write_phases,
)
from musadata.teacher.compiler.ir.index_formulas import Variable
from musadata.teacher.compiler.ir.scalar import Choose, Load, Scalar
from musadata.teacher.compiler.lowering.fusion import Kernel, Reduce

_SIDE = 16  # of a fragment
_PADDING = 8  # elements at the end of a tile's line, so that 16-byte reads reach different banks
_LENGTH = _SIDE + 4  # of a line of results, for the same reason


@dataclass(frozen=True)
class FragmentTile(Tile):
    """A tile of which each warp computes `warp_rows` x `warp_cols`."""

    warp_rows: int
    warp_cols: int

    @property
    def threads(self) -> int:
        return self.rows // self.warp_rows * (self.cols // self.warp_cols) * 32

    @property
    def fragments(self) -> tuple[int, int]:
        """Of a warp: down and across."""
        return self.warp_rows // _SIDE, self.warp_cols // _SIDE


SHAPES = (FragmentTile(128, 128, 32, 64, 64), FragmentTile(64, 64, 32, 32, 32))
WIDE_SHAPES = (FragmentTile(128, 256, 32, 64, 64), *SHAPES)  # loads less, but a multiprocessor has room for one block
SMALLEST = SHAPES[-1]
_NAMES = ("warp", "warp_row", "warp_col", "results", "at", "tiles")


def half_type(kernel: Kernel) -> str:
    """The half type that both operands have, and all results that are not float; "" if there is none."""
    stage = kernel.reductions[0]
    assert stage.contraction is not None
    operands = [side(stage.index, stage.loops) for side in (stage.contraction.left, stage.contraction.right)]
    return half_type_of(operands, kernel)


def half_type_of(operands: Sequence[Scalar], kernel: Kernel) -> str:
    """The half type that operands have in memory, and all results of the kernel that are not float."""
    results = {buffer.dtype for buffer in kernel.outputs} - {"float32"}
    types = {_memory_type(value) for value in operands} | results
    return types.pop() if len(types) == 1 and types <= {"float16", "bfloat16"} else ""


def _memory_type(value: Scalar) -> str:
    """The type of the element that a value is, or is where it is not 0; "" for one that is computed."""
    load = value.yes if isinstance(value, Choose) else value
    return load.buffer.dtype if isinstance(load, Load) else ""


def emit_tensor_core_tiled(
    kernel: Kernel, size_names: Sequence[str], tile: FragmentTile, hints: tuple[int, int, int]
) -> EmittedKernel:
    """A block per tile of the output; each warp keeps a rectangle of sums in fragments. `hints`: how many products,
    rows and columns there are."""
    stage, dtype = kernel.reductions[0], half_type(kernel)
    parts = partition(kernel)
    assert parts is not None
    batch, rows, cols = parts
    own = [*own_names(kernel.axes), *(v.name for v in stage.axes), *_NAMES, stage.local]
    block = Block([*names_in(kernel, size_names), *own])
    operands = (read_operand(block, stage, "left", rows, dtype), read_operand(block, stage, "right", cols, dtype))
    shared = _write_tiles(block, tile, operands)
    _write_positions(block, tile, *longest_first(*hints[1:], along_x(block, stage, batch)))
    write_places(block, tile, operands)
    write_batch(block, batch, along_x(block, stage, batch))
    write_phases(block, stage)
    down, across = tile.fragments
    block.write(f"wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[{down}][{across}];")
    with _fragment_loops(block, tile):
        block.write("wmma::fill_fragment(sums[i][j], 0.0f);")
    depth = write_depth(block, kernel, (tile.rows, tile.cols))
    block.write()
    write_pipeline(
        block, tile, operands, depth, lambda: _multiply(block, tile, operands), lambda *at: _place(tile, *at)
    )
    kind = f"(*)[{_SIDE}][{_LENGTH}]"
    block.write(f"float (*results)[{_SIDE}][{_LENGTH}] = reinterpret_cast<float {kind}>(tiles);")
    block.write()
    _write_results(block, kernel, stage, tile, rows, cols)
    return finish(
        kernel,
        "wide tensor core tiles" if tile == WIDE_SHAPES[0] else "tensor core tiles",
        block,
        write_grid(block, tile, operands, batch, stage, swapped=hints[1] > hints[2]),
        size_names,
        helpers="using namespace nvcuda;\n\n" + load_functions(operands, copied=True),
        bounds=tile.threads,
        aligned=alignment(block, operands, host=True),
        shared=shared,
    )


def _write_tiles(block: Block, tile: FragmentTile, operands: Sequence[Operand]) -> str:
    """Shared memory, and its bytes."""
    kind = C_TYPES[operands[0].dtype]
    layouts = [_layout(tile, operand) for operand in operands]
    block.write(f"extern __shared__ __align__(16) {kind} tiles[];  // {STAGES} slices of both operands")
    sizes = [f"{STAGES} * {lines} * {length}" for lines, length in layouts]
    for operand, (lines, length), start in zip(operands, layouts, ("tiles", f"tiles + {sizes[0]}"), strict=True):
        pointer = f"(*)[{lines}][{length}]"
        place = f"reinterpret_cast<{kind} {pointer}>({start})"
        block.write(f"{kind} (*{operand.side}_tile)[{lines}][{length}] = {place};")
    return f"({' + '.join(sizes)}) * sizeof({kind})"


def _layout(tile: FragmentTile, operand: Operand) -> tuple[int, int]:
    """Lines of an operand's tile, and their length with padding: as neighbours lie in memory."""
    extent = operand.extent(tile)
    return (extent, tile.depth + _PADDING) if operand.along_depth else (tile.depth, extent + _PADDING)


def _write_positions(block: Block, tile: FragmentTile, row_block: str, col_block: str) -> None:
    block.write(f"const {INDEX} first_row = {row_block} * {tile.rows};")
    block.write(f"const {INDEX} first_col = {col_block} * {tile.cols};")
    across = tile.cols // tile.warp_cols
    block.write(f"const {INDEX} warp = threadIdx.x / 32;")
    block.write(f"const {INDEX} warp_row = warp / {across} * {tile.warp_rows};")
    block.write(f"const {INDEX} warp_col = warp % {across} * {tile.warp_cols};")


def _place(tile: FragmentTile, operand: Operand, slice_number: str) -> str:
    """A thread's element i of a slice in shared memory."""
    k, line = operand.place(tile)
    place = f"[{line}][{k}]" if operand.along_depth else f"[{k}][{line}]"
    return f"{operand.side}_tile[{slice_number}]{place}"


@contextmanager
def _fragment_loops(block: Block, tile: FragmentTile) -> Iterator[None]:
    """Loops over the fragments of a warp; unrolled, since fragments stay in registers."""
    down, across = tile.fragments
    block.write("#pragma unroll")
    with block.scope(f"for (int i = 0; i < {down}; ++i)"):
        block.write("#pragma unroll")
        with block.scope(f"for (int j = 0; j < {across}; ++j)"):
            yield


def _multiply(block: Block, tile: FragmentTile, operands: Sequence[Operand]) -> None:
    """Add the products of the current slice, a fragment's depth at a time."""
    kinds = zip(operands, ("matrix_a", "matrix_b"), ("row", "col"), ("i", "j"), tile.fragments, strict=True)
    block.write("#pragma unroll")
    with block.scope(f"for (int k = 0; k < {tile.depth}; k += {_SIDE})"):
        for operand, kind, line, counter, count in kinds:
            layout = "row_major" if operand.along_depth == (operand.side == "left") else "col_major"
            element = f"wmma::{kind}, 16, 16, 16, {C_TYPES[operand.dtype]}, wmma::{layout}"
            block.write(f"wmma::fragment<{element}> {operand.side}[{count}];")
            first = f"warp_{line} + {counter} * {_SIDE}"
            place = f"[{first}][k]" if operand.along_depth else f"[k][{first}]"
            length = _layout(tile, operand)[1]
            source = f"&{operand.side}_tile[current]{place}"
            block.write("#pragma unroll")
            with block.scope(f"for (int {counter} = 0; {counter} < {count}; ++{counter})"):
                block.write(f"wmma::load_matrix_sync({operand.side}[{counter}], {source}, {length});")
        with _fragment_loops(block, tile):
            block.write("wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);")


def _write_results(
    block: Block,
    kernel: Kernel,
    stage: Reduce,
    tile: FragmentTile,
    rows: tuple[Variable, ...],
    cols: tuple[Variable, ...],
) -> None:
    """Each warp passes its sums through shared memory, a fragment at a time; its threads then have known places."""
    row, col = flat_name("left", rows), flat_name("right", cols)
    with _fragment_loops(block, tile):
        target = f"&results[warp][0][0], sums[i][j], {_LENGTH}, wmma::mem_row_major"
        block.write(f"wmma::store_matrix_sync({target});")
        block.write("__syncwarp();")
        with block.scope(f"for (int at = threadIdx.x % 32; at < {_SIDE * _SIDE}; at += 32)"):
            block.write(f"const {INDEX} {row} = first_row + warp_row + i * {_SIDE} + at / {_SIDE};")
            block.write(f"const {INDEX} {col} = first_col + warp_col + j * {_SIDE} + at % {_SIDE};")
            for axes, name in ((rows, row), (cols, col)):
                if len(axes) > 1:
                    block.printer.positions[flat(axes)] = name
            block.printer.rename = {stage.local: f"results[warp][at / {_SIDE}][at % {_SIDE}]"}
            with block.scope(f"if ({row} < {count_text(block, rows)} && {col} < {count_text(block, cols)})"):
                head = len(block.lines)
                write_results(block, kernel, stage)
                decode_used(block, head, (row, rows), (col, cols))
        block.write("__syncwarp();  // before the next fragment takes its place")
