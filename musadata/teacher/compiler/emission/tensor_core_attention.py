"""Attention of half types on tensor cores, by the instruction `mma.sync`; scores, weights' sums and results are float.

As in FlashAttention-2 (Dao, 2023) a warp has 16 queries, and its scores stay in the registers in which they are made: a
thread's elements of a product are those that it must have of the weights in the next one.
"""

from collections.abc import Sequence
from pathlib import Path
from string import Template

from musadata.teacher.compiler.emission.attention import BUSY_BLOCKS, Attention, AttentionTile
from musadata.teacher.compiler.emission.cpp import C_TYPES, fragment_functions
from musadata.teacher.compiler.emission.launch import EmittedKernel, finish
from musadata.teacher.compiler.emission.pointwise import stored
from musadata.teacher.compiler.emission.statements import INDEX
from musadata.teacher.compiler.emission.tensor_core_tiled import half_type_of
from musadata.teacher.compiler.emission.tile_operands import Operand, alignment, element_text, load_functions
from musadata.teacher.compiler.emission.tiled import decode_used
from musadata.teacher.compiler.ir.index_formulas import Variable
from musadata.teacher.compiler.ir.scalar import Attended, Scalar
from musadata.teacher.compiler.lowering.fusion import Kernel

DEEPEST = 256  # elements of a query or key: whole lines of both are in shared memory
KEYS = 64  # of a tile
_PADDING = 8  # elements at the end of a line, so that eight lines begin in different banks
_BODY = Template(
    (Path(__file__).parent / "templates" / "tensor_core_attention.txt").read_text(encoding="utf-8").rstrip("\n")
)


def half_type(kernel: Kernel) -> str:
    """The half type of queries, keys, values and results; "" if there is none."""
    value = kernel.reductions[0].value
    assert isinstance(value, Attended)
    return half_type_of((value.query, value.key, value.element), kernel)


def tile_for(batch: int, rows: int, cols: int) -> AttentionTile:
    """The tile for these sizes: fewer queries where there would be too few blocks for a large GPU."""
    busy = (size for size in (64, 32) if size < 2 * rows and batch * -(-rows // size) >= BUSY_BLOCKS)
    width = next((size for size in (16, 32, 64) if size >= cols), 128)
    return AttentionTile(next(busy, 16 if rows <= 16 else 32), KEYS, width)


def emit_tensor_core_attention(kernel: Kernel, size_names: Sequence[str], tile: AttentionTile) -> EmittedKernel:
    """A block per tile of queries, a warp for each 16 of them; keys and values pass through shared memory."""
    attention = _OnTensorCores(kernel, size_names, tile)
    block = attention.block
    block.lines = _BODY.substitute(attention.words(), **attention.parts()).split("\n")
    lines, padded = tile.rows + tile.keys, f"({attention.names()['depth_count']} + 15) / 16 * 16 + {_PADDING}"
    moved = attention.moved
    return finish(
        kernel,
        "attention on tensor cores",
        block,
        attention.setup(attention.threads),
        size_names,
        helpers=load_functions(moved, copied=True)
        + fragment_functions(attention.dtype, "load", "load_transposed", "multiply", "pack"),
        bounds=attention.threads,
        aligned=alignment(block, moved, host=True),
        shared=f"({lines} * ({padded}) + {tile.keys * (tile.cols + _PADDING)}) * sizeof({C_TYPES[attention.dtype]})",
    )


class _OnTensorCores(Attention):
    """What is put into the template for tensor cores."""

    def __init__(self, kernel: Kernel, size_names: Sequence[str], tile: AttentionTile):
        super().__init__(kernel, size_names, tile)
        self.dtype, self.threads = half_type(kernel), tile.rows * 2
        self.place = self.block.fresh("line")
        self.moved: list[Operand] = []  # those that move in vectors

    def words(self) -> dict[str, str]:
        """Names, types and numbers."""
        tile, names = self.tile, self.names()
        inside = f"(is_whole || {self.key.name} < {names['key_count']})"
        visible = f"{self.row} < {self.row_count} && {inside}" if self.value.score.loads else inside[1:-1]
        sizes = {"rows": tile.rows, "keys": tile.keys, "cols": tile.cols, "value_length": tile.cols + _PADDING}
        sizes |= {"key_parts": tile.keys // 8, "col_parts": tile.cols // 8}
        return {
            **names,
            **{name: str(size) for name, size in sizes.items()},
            "T": C_TYPES[self.dtype],
            "visible": visible,
        }

    def parts(self) -> dict[str, str]:
        """The statements that depend on what is attended to."""
        row, col, value = (self.row, self.rows), (self.col, self.cols), self.value
        score = "own_scores[{i}][2 * {r} + {c}]".format(**self.counters)
        self.write_positions()
        self.hoist_score()
        key = (self.key.name, (self.key,))
        at = f"{self.place} * line_length + {self.depth.name}"
        return {
            "positions": "\n".join(self.block.lines),
            "query": self._fetched(1, "left", value.query, row, f"query_tile[{at}]"),
            "key": self._fetched(2, "right", value.key, key, f"key_tile[{at}]"),
            "element": self._fetched(2, "right", value.element, key, f"value_tile[{self.place}]", col),
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
        with block.scope(f"for ({INDEX} {place} = threadIdx.x / 8; {place} < {lines}; {place} += {self.threads // 8})"):
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
        block.write(f"copy_eight(&{element}, {operand.buffer}{base} + {step}, left, aligned);")
