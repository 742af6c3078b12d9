"""Attention of half types on tensor cores, by the instruction `mma.sync`; scores, weights' sums and results are float.

As in FlashAttention-2 (Dao, 2023) the scores of a warp stay in the registers in which they are made: a thread's
elements of a product are those that it must have of the weights in the next one. A warp has 32 queries, so that each
fragment of keys or values serves two products: with 16, shared memory would be the bound (H200: 0.54 of eager instead
of 0.68).
"""

from musadata.compiler.emission.attention import BUSY_BLOCKS, Attention, AttentionTile, Parts, Words
from musadata.compiler.emission.block import INDEX, UNROLL, Flat, decode_used
from musadata.compiler.emission.cpp import C_TYPES, number, vector_functions
from musadata.compiler.emission.launch import EmittedKernel, constant, finish
from musadata.compiler.emission.pointwise import stored
from musadata.compiler.emission.tensor_core_tiled import half_type_of
from musadata.compiler.emission.tile_operands import Operand, alignments, element_of, load_functions, pointer_at
from musadata.compiler.ir.code import (
    BLOCK_Y,
    THREAD_X,
    Barrier,
    Binary,
    Blank,
    Body,
    Choice,
    Declare,
    Expression,
    Group,
    Guard,
    Inserted,
    Loop,
    Name,
    Run,
    Unary,
    apply,
    code,
    covering,
    every,
)
from musadata.compiler.ir.scalar import Attended, Scalar
from musadata.compiler.ir.schedule import Schedule, Step, TensorCore
from musadata.compiler.lowering.fusion import Kernel

DEEPEST = 256  # elements of a query or key: whole lines of both are in shared memory
WARP_ROWS = 32  # queries of a warp
_HELD_DEPTH = 64  # elements of a query: so many stay in registers, more would not fit beside the sums
_PADDING = 8  # elements at the end of a line, so that eight lines begin in different banks
_FUNCTIONS = ("load_fragments", "load_transposed", "multiply_fragments", "pack", "power_of_two")


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
    attention.write("tensor_core_attention")
    block = attention.block
    lines, padded = tile.rows + 2 * tile.keys, attention.padded() + _PADDING
    values = 2 * tile.keys * (tile.cols + _PADDING)
    return finish(
        kernel,
        schedule,
        block,
        attention.setup(tile.rows),
        threads=(tile.rows,),
        helpers=[
            *load_functions(list(attention.moved.values()), copied=True),
            *vector_functions(attention.dtype, *_FUNCTIONS),
        ],
        bounds=tile.rows,
        aligned=attention.aligned(),
        shared=(code(lines) * Group(padded) + values) * apply("sizeof", C_TYPES[attention.dtype]),
    )


class _OnTensorCores(Attention):
    """What is put into the template for tensor cores."""

    def __init__(self, kernel: Kernel, schedule: Schedule):
        super().__init__(kernel, schedule)
        self.dtype, self.threads, self.usual = half_type(kernel), self.tile.rows, schedule.get(TensorCore).cols
        self.place = self.block.fresh("line")
        self.counters |= {name: self.block.fresh(name) for name in ("m", "part", "current")}

    def padded(self) -> Expression:
        """How many elements the tiles have of a query or key."""
        depth = self.depth.extent
        whole = code(-(-depth.constant // 16) * 16) if depth.constant else None
        return whole or covering(self.block.index(depth), 16) * 16

    def aligned(self) -> Expression | None:
        """The condition for the kernel whose rows move in vectors, and are as long as usual."""
        tests = alignments(self.block, list(self.moved.values()), host=True)
        if not tests:
            return None
        return every(*tests) if self.depth.extent.constant else every(*tests, self.padded().equals(self.usual))

    def held(self) -> Words:
        """The statements that bring queries to registers: once, if that many elements fit; and how many do."""
        k, part, is_constant = Name(self.counters["k"]), self.counters["part"], bool(self.depth.extent.constant)
        fits = self.usual <= _HELD_DEPTH and (is_constant or bool(self.aligned()))
        again, aligned = Run(apply("load_queries", part, k)), Name("aligned")
        one = Run(apply("load_queries", k / 16, k))
        loop = Loop(INDEX, ((k, code(0)),), k < "padded_depth", code(16), (one,), UNROLL, short=True)
        wait = Run(apply("__pipeline_wait_prior", 0), "the queries have arrived")
        first: Body = (wait, Barrier(), loop)
        place: Expression = k / 16
        later: Body = ()
        if not fits:
            first, later, place = (), (again,), code(0)
        elif not is_constant:
            first, later = (Guard(aligned, first),), (Guard(Unary("!", aligned), (again,), short=True),)
            place = Choice(aligned, place, code(0))
        own = Declare(INDEX, ((Name(part), place),))
        return {
            "held": self.usual // 16 if fits else 1,
            "load_held": Inserted((*first, Blank()), 1),
            "load_part": Inserted((own, *later), 3),
        }

    def words(self) -> Words:
        """Names, types and numbers."""
        tile, names = self.tile, self.names()
        inside: Expression = Binary(Name("is_whole"), "||", Name(self.key.name) < self.block.index(self.key.extent))
        visible = every(Name(self.row) < self.row_count, Group(inside)) if self.value.score.loads else inside
        sizes = {"rows": tile.rows, "keys": tile.keys, "cols": tile.cols, "value_length": tile.cols + _PADDING}
        sizes |= {"key_parts": tile.keys // 8, "col_parts": tile.cols // 8}
        padded = self.padded()
        if self.moved and not self.depth.extent.constant:
            padded = Choice(Name("aligned"), code(self.usual), padded)
        return {
            **names,
            **self.held(),
            "padded_depth": padded,
            **sizes,
            "T": C_TYPES[self.dtype],
            "visible": visible,
        }

    def parts(self) -> Parts:
        """The statements that depend on what is attended to."""
        row, col, value = (self.row, self.rows), (self.col, self.cols), self.value
        i, r, c = (Name(self.counters[name]) for name in "irc")
        score = Name("own_scores")[r / 2][i][r % 2 * 2 + c]
        self.write_positions()
        self.hoist_score()
        key = (self.key.name, (self.key,))
        own, length, filled = Name(self.place) * "line_length", Name("line_length"), Name("filled")
        positions, depth = Inserted((*self.block.body, *self.own_places()), 1), Name(self.depth.name)
        key_at = filled * self.tile.keys * length + own + depth
        values = Name("value_tile")[filled][self.place]
        return {
            "positions": positions,
            "query": self._fetched(1, "left", value.query, row, Name("query_tile")[own + depth]),
            "key": self._fetched(2, "right", value.key, key, Name("key_tile")[key_at]),
            "element": self._fetched(2, "right", value.element, key, values, col),
            "score": self.assigned(value.score, row, rename={"score": score}, depth=6),
            "store": self.block.inserted(5, {self.stage.local: Name("result")}, self.write_stores, row, col),
            "log_sum": self.log_sum(),
        }

    def own_places(self) -> Body:
        """Where a warp's queries are in a tile."""
        places = (Name("lane"), THREAD_X % 32), (Name("warp_row"), THREAD_X / WARP_ROWS * WARP_ROWS)
        return constant("first_col", BLOCK_Y * self.tile.cols), Declare(INDEX, places)

    def _fetched(
        self, depth: int, side: str, value: Scalar, line: Flat, target: Expression, col: Flat | None = None
    ) -> Inserted:
        """The loops that bring a tile; its lines go along the depth, or along the columns `col`."""
        along = line if col is None else col
        operand = Operand(
            side, self.dtype, value, along[1], (self.depth,) if col is None else (self.key,), *self.counted(along[0])
        )
        is_moved = operand.base is not None and operand.along_depth == (col is None)
        if is_moved:
            self.moved[side if col is None else "value"] = operand
        return self.block.inserted(
            depth, {}, lambda: self._write_fetch(operand, line, target, col, 8 if is_moved else 1)
        )

    def _write_fetch(self, operand: Operand, line: Flat, target: Expression, col: Flat | None, group: int) -> None:
        block, place, counter = self.block, self.place, self.counters["c"] if col else self.depth.name
        step, count = self.counted(col[0] if col else self.depth.name)
        lines = self.tile.rows if operand.side == "left" else self.tile.keys
        first = "first_row" if operand.side == "left" else "first_key"
        own, width = THREAD_X % 8, code(self.tile.cols if col else "padded_depth")
        element = target[counter] if col else target
        part, beside = self.counters["i"], self.threads // 8  # lines that threads bring at a time
        with block.unrolled(part, lines // beside):
            block.declare(place, THREAD_X / 8 + Name(part) * beside)
            block.declare(line[0], Name(first) + place)
            with block.loop(counter, own * group if group > 1 else own, width, 8 * group):
                if col:
                    block.declare(step, Name("first_col") + counter)
                head = len(block.body)
                inside = Name(line[0]) < self.counted(line[0])[1]
                if group > 1:
                    block.declare("left", Choice(inside, count - step, code(0)))
                    block.variable(f"{C_TYPES[self.dtype]}*", "to", Unary("&", element))
                    block.run("copy_eight", "to", pointer_at(block, operand, Name(step)), "left", "aligned")
                else:
                    block.variable(C_TYPES[self.dtype], "value", stored(number(0, "float32"), self.dtype))
                    with block.when(every(inside, Name(step) < count)):
                        block.assign("value", element_of(block, operand))
                    block.assign(element, "value")
                decode_used(block, head, line, *([col] if col else []))
