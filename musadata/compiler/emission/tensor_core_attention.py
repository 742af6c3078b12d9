"""Attention of half types on tensor cores, by the instruction `mma.sync`; scores, weights' sums and results are float.

As in FlashAttention-2 (Dao, 2023) the scores of a warp stay in the registers in which they are made: a thread's
elements of a product are those that it must have of the weights in the next one. A warp has 32 queries, so that each
fragment of keys or values serves two products: with 16, shared memory would be the bound (H200: 0.54 of eager instead
of 0.68).
"""

from pathlib import Path
from string import Template

from musadata.compiler.emission.attention import BUSY_BLOCKS, Attention, AttentionTile
from musadata.compiler.emission.cpp import C_TYPES, fragment_functions
from musadata.compiler.emission.launch import EmittedKernel, finish
from musadata.compiler.emission.pointwise import stored
from musadata.compiler.emission.statements import INDEX
from musadata.compiler.emission.tensor_core_tiled import half_type_of
from musadata.compiler.emission.tile_operands import Operand, alignment, element_text, load_functions
from musadata.compiler.emission.tiled import decode_used
from musadata.compiler.ir.index_formulas import Variable
from musadata.compiler.ir.scalar import Attended, Scalar
from musadata.compiler.ir.schedule import Schedule, Step, TensorCore
from musadata.compiler.lowering.fusion import Kernel

DEEPEST = 256  # elements of a query or key: whole lines of both are in shared memory
WARP_ROWS = 32  # queries of a warp
_HELD_DEPTH = 64  # elements of a query: so many stay in registers, more would not fit beside the sums
_PADDING = 8  # elements at the end of a line, so that eight lines begin in different banks
_BODY = Template(
    (Path(__file__).parent / "templates" / "tensor_core_attention.txt").read_text(encoding="utf-8").rstrip("\n")
)


def half_type(kernel: Kernel) -> str:
    """The half type of queries, keys, values and results; "" if there is none."""
    value = kernel.reductions[0].value
    assert isinstance(value, Attended)
    return half_type_of((value.query, value.key, value.element), kernel)


def tile_for(batch: int, rows: int, cols: int, depth: int) -> AttentionTile:
    """The tile for these sizes: fewer queries where there would be too few blocks for a large GPU, and fewer keys where
    they are long, so that registers hold a warp's sums."""
    choices = (128, 64) if depth <= DEEPEST // 2 else (64,)
    busy = (size for size in choices if size < 2 * rows and batch * -(-rows // size) >= BUSY_BLOCKS)
    width = next((size for size in (16, 32, 64) if size >= cols), 128)
    return AttentionTile(next(busy, WARP_ROWS), 64 if max(width, depth) <= 64 else 32, width)


def steps_for(batch: int, rows: int, cols: int, depth: int) -> tuple[Step, ...]:
    """Tiles for so many attentions, queries and columns; loops over queries and keys are unrolled for this depth."""
    return *tile_for(batch, rows, cols, depth).steps(), TensorCore("sums", WARP_ROWS, -(-depth // 16) * 16)


def emit_tensor_core_attention(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """A block per tile of queries, a warp for each 32 of them; keys and values pass through shared memory."""
    attention = _OnTensorCores(kernel, schedule)
    tile = attention.tile
    block, parts = attention.block, attention.parts()
    block.lines = _BODY.substitute(attention.words(), **parts, **attention.held()).split("\n")
    lines, padded = tile.rows + 2 * tile.keys, f"({attention.padded()} + {_PADDING})"
    values = 2 * tile.keys * (tile.cols + _PADDING)
    return finish(
        kernel,
        schedule,
        block,
        attention.setup(tile.rows),
        threads=(tile.rows,),
        helpers=load_functions(attention.moved, copied=True)
        + fragment_functions(attention.dtype, "load", "load_transposed", "multiply", "pack", "power_of_two"),
        bounds=tile.rows,
        aligned=attention.aligned(),
        shared=f"({lines} * {padded} + {values}) * sizeof({C_TYPES[attention.dtype]})",
    )


class _OnTensorCores(Attention):
    """What is put into the template for tensor cores."""

    def __init__(self, kernel: Kernel, schedule: Schedule):
        super().__init__(kernel, schedule)
        self.dtype, self.threads, self.usual = half_type(kernel), self.tile.rows, schedule.get(TensorCore).cols
        self.place = self.block.fresh("line")
        self.counters |= {name: self.block.fresh(name) for name in ("m", "part", "current")}
        self.moved: list[Operand] = []  # those that move in vectors

    def padded(self) -> str:
        """How many elements the tiles have of a query or key."""
        depth = self.depth.extent
        text = self.block.index(depth)
        return str(-(-depth.constant // 16) * 16) if depth.constant else f"({text} + 15) / 16 * 16"

    def aligned(self) -> str:
        """The condition for the kernel whose rows move in vectors, and are as long as usual."""
        tests = alignment(self.block, self.moved, host=True)
        return f"{tests} && {self.padded()} == {self.usual}" if tests and not self.depth.extent.constant else tests

    def held(self) -> dict[str, str]:
        """The statements that bring queries to registers: once, if that many elements fit; and how many do."""
        k, part, is_constant = self.counters["k"], self.counters["part"], bool(self.depth.extent.constant)
        fits = self.usual <= _HELD_DEPTH and (is_constant or bool(self.aligned()))
        again = f"load_queries({part}, {k});"
        lines = [
            "    __pipeline_wait_prior(0);  // the queries have arrived",
            "    __syncthreads();",
            "    #pragma unroll",
            f"    for (int {k} = 0; {k} < padded_depth; {k} += 16) load_queries({k} / 16, {k});",
        ]
        if not fits:
            lines, place = [], "0"
        elif is_constant:
            again, place = "", f"{k} / 16"
        else:
            lines = ["    if (aligned) {", *(f"    {line}" for line in lines), "    }"]
            again, place = f"if (!aligned) {again}", f"aligned ? {k} / 16 : 0"
        inside = [f"const int {part} = {place};", *([again] if again else [])]
        return {
            "held": str(self.usual // 16 if fits else 1),
            "load_held": "\n".join([*lines, ""] if lines else []),
            "load_part": "\n".join(" " * 12 + line for line in inside),
        }

    def words(self) -> dict[str, str]:
        """Names, types and numbers."""
        tile, names = self.tile, self.names()
        inside = f"(is_whole || {self.key.name} < {names['key_count']})"
        visible = f"{self.row} < {self.row_count} && {inside}" if self.value.score.loads else inside[1:-1]
        sizes = {"rows": tile.rows, "keys": tile.keys, "cols": tile.cols, "value_length": tile.cols + _PADDING}
        sizes |= {"key_parts": tile.keys // 8, "col_parts": tile.cols // 8}
        padded = self.padded()
        if self.moved and not self.depth.extent.constant:
            padded = f"aligned ? {self.usual} : {padded}"
        return {
            **names,
            "padded_depth": padded,
            **{name: str(size) for name, size in sizes.items()},
            "T": C_TYPES[self.dtype],
            "visible": visible,
        }

    def parts(self) -> dict[str, str]:
        """The statements that depend on what is attended to."""
        row, col, value = (self.row, self.rows), (self.col, self.cols), self.value
        score = "own_scores[{r} / 2][{i}][{r} % 2 * 2 + {c}]".format(**self.counters)
        self.write_positions()
        self.hoist_score()
        key = (self.key.name, (self.key,))
        at = f"{self.place} * line_length + {self.depth.name}"
        return {
            "positions": "\n".join(self.block.lines),
            "query": self._fetched(1, "left", value.query, row, f"query_tile[{at}]"),
            "key": self._fetched(
                2, "right", value.key, key, f"key_tile[filled * {self.tile.keys} * line_length + {at}]"
            ),
            "element": self._fetched(2, "right", value.element, key, f"value_tile[filled][{self.place}]", col),
            "score": self.assigned(value.score, row, rename={"score": score}, depth=6),
            "store": self.lines(5, {self.stage.local: "result"}, self.write_stores, row, col),
        }

    def _fetched(
        self,
        depth: int,
        side: str,
        value: Scalar,
        line: tuple[str, tuple[Variable, ...]],
        target: str,
        col: tuple[str, tuple[Variable, ...]] | None = None,
    ) -> str:
        """The loops that bring a tile; its lines go along the depth, or along the columns `col`."""
        along = line if col is None else col
        operand = Operand(
            side, self.dtype, value, along[1], (self.depth,) if col is None else (self.key,), *self._counted(along[0])
        )
        is_moved = operand.base is not None and operand.along_depth == (col is None)
        if is_moved:
            self.moved.append(operand)
        return self.lines(depth, {}, lambda: self._write_fetch(operand, line, target, col, 8 if is_moved else 1))

    def _counted(self, name: str) -> tuple[str, str]:
        """A position and how many there are."""
        known = {self.row: self.row_count, self.col: self.col_count}
        return name, known.get(name) or self.block.index((self.key if name == self.key.name else self.depth).extent)

    def _write_fetch(
        self,
        operand: Operand,
        line: tuple[str, tuple[Variable, ...]],
        target: str,
        col: tuple[str, tuple[Variable, ...]] | None,
        group: int,
    ) -> None:
        block, place, counter = self.block, self.place, self.counters["c"] if col else self.depth.name
        step, count = self._counted(col[0] if col else self.depth.name)
        lines = self.tile.rows if operand.side == "left" else self.tile.keys
        first = "first_row" if operand.side == "left" else "first_key"
        many = f" * {group}" if group > 1 else ""
        width = str(self.tile.cols) if col else "padded_depth"
        kind = C_TYPES[self.dtype]
        element = f"{target}[{counter}]" if col else target
        number, beside = self.counters["i"], self.threads // 8  # lines that threads bring at a time
        with block.unrolled(number, lines // beside):
            block.write(f"const {INDEX} {place} = threadIdx.x / 8 + {number} * {beside};")
            block.write(f"const {INDEX} {line[0]} = {first} + {place};")
            with block.scope(
                f"for ({INDEX} {counter} = threadIdx.x % 8{many}; {counter} < {width}; {counter} += {8 * group})"
            ):
                if col:
                    block.write(f"const {INDEX} {step} = first_col + {counter};")
                head = len(block.lines)
                if group > 1:
                    self._write_copy(operand, element, line[0], step, count)
                else:
                    block.write(f"{kind} value = {stored('0.0f', self.dtype)};")
                    with block.scope(f"if ({line[0]} < {self._counted(line[0])[1]} && {step} < {count})"):
                        block.write(f"value = {element_text(block, operand)};")
                    block.write(f"{element} = value;")
                decode_used(block, head, line, *([col] if col else []))

    def _write_copy(self, operand: Operand, element: str, line: str, step: str, count: str) -> None:
        assert operand.base is not None
        block = self.block
        block.write(f"const {INDEX} left = {line} < {self._counted(line)[1]} ? {count} - {step} : 0;")
        base = f" + {block.index(operand.base)}" if operand.base.terms else ""
        block.write(f"{C_TYPES[self.dtype]}* to = &{element};")
        block.write(f"copy_eight(to, {operand.buffer}{base} + {step}, left, aligned);")
