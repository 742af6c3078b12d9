"""Attention in one kernel: a block keeps some queries and goes along the keys in tiles, with an online softmax."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from musadata.compiler.emission.block import Block, Flat, decode
from musadata.compiler.emission.cpp import C_TYPES, number
from musadata.compiler.emission.launch import EmittedKernel, constant, count_of, finish, sides
from musadata.compiler.emission.pointwise import stored, write_store
from musadata.compiler.emission.tile_operands import Operand, alignment, load_functions, pointer_at
from musadata.compiler.emission.tiled import partition, parts_of
from musadata.compiler.ir.code import (
    BLOCK_X,
    BLOCK_Y,
    THREAD_X,
    Body,
    Choice,
    Declare,
    Expression,
    Group,
    Inserted,
    Name,
    apply,
    code,
    covering,
    product,
)
from musadata.compiler.ir.index_formulas import Variable, of
from musadata.compiler.ir.scalar import Attended, Choose, Compare, Literal, Local, Scalar, plain
from musadata.compiler.ir.schedule import Carry, Schedule, Split, Stage, Step
from musadata.compiler.lowering.fusion import LOG_SUM, Kernel, Store

SIDE = 16  # the 256 threads of a block are a square
BUSY_BLOCKS = 264  # two for each multiprocessor of a large GPU
PADDING = 4  # elements at the end of a tile's row, so that threads which write a column reach different banks
Words = dict[str, object]
Parts = dict[str, Inserted]


@dataclass(frozen=True)
class AttentionTile:
    """A block has `rows` queries and `cols` columns of the values, and takes `keys` keys at a time."""

    rows: int
    keys: int
    cols: int

    @classmethod
    def of(cls, schedule: Schedule) -> "AttentionTile":
        """The tile of a schedule."""
        rows, cols = (schedule.get(Split, axis).amount for axis in ("rows", "columns"))
        return cls(rows, schedule.get(Stage).amount, cols)

    def steps(self) -> tuple[Step, ...]:
        split = Split("rows", self.rows), Split("columns", self.cols)
        return *split, Stage("keys", "shared", self.keys), Carry("keys", "pieces")


def can_attend(kernel: Kernel) -> bool:
    """Whether what a kernel with attention stores has axes that fall into batch, queries and columns."""
    return partition(kernel) is not None


def is_causal(kernel: Kernel) -> bool:
    """Whether a query sees no key behind its own place."""
    stage, (_, rows, _) = kernel.reductions[0], parts_of(kernel)
    assert isinstance(stage.value, Attended)
    match plain(stage.value.score):
        case Choose(condition=Compare(relation="<=", left=left, right=right), no=Literal(value=no)):
            return len(rows) == 1 and left == of(stage.axes[0]) and right == of(rows[0]) and no == -math.inf
    return False


def slice_of(kernel: Kernel) -> int:
    """How many elements of queries and keys are multiplied at a time: no more than small heads have."""
    depth = kernel.reductions[0].axes[1].extent.constant
    return SIDE // 2 if depth is not None and depth <= SIDE // 2 else SIDE


def tile_for(batch: int, rows: int, keys: int, cols: int, dtype: str) -> AttentionTile:
    """The tile for these sizes: as large as they are, but small enough that there are blocks for a large GPU."""
    choices = [size for size in (64, 32, SIDE) if size < 2 * rows or size == SIDE]
    busy = [size for size in choices if batch * -(-rows // size) >= BUSY_BLOCKS]
    most_keys, most_cols = (32, 64) if dtype == "float64" else (64, 128)
    return AttentionTile(
        busy[0] if busy else choices[-1],
        next((size for size in (SIDE, 32) if size >= keys), most_keys),
        next((size for size in (SIDE, 32, 64) if size >= cols), most_cols),
    )


def steps_for(sizes: tuple[int, int, int], keys: int, dtype: str) -> tuple[Step, ...]:
    """Tiles for so many attentions, queries and columns, and so many keys."""
    batch, rows, cols = sizes
    return tile_for(batch, rows, keys, cols, dtype).steps()


def emit_attention(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """A block per tile of queries; scores and weights stay in registers and shared memory. A thread has some rows and
    columns of each tile; the rows are those of 16 neighbouring threads."""
    attention = Attention(kernel, schedule)
    block = attention.block
    attention.write("attention")
    setup = attention.setup(SIDE * SIDE)
    helpers, threads = load_functions(list(attention.moved.values())), SIDE * SIDE
    return finish(kernel, schedule, block, setup, threads=(threads,), helpers=helpers, bounds=threads)


class Attention:
    """What is put into the template."""

    def __init__(self, kernel: Kernel, schedule: Schedule):
        self.tile = tile = AttentionTile.of(schedule)
        self.kernel, self.stage = kernel, kernel.reductions[0]
        assert isinstance(self.stage.value, Attended)
        self.value, (self.batch, self.rows, self.cols) = self.stage.value, parts_of(kernel)
        self.key, self.depth = self.stage.axes
        self.is_causal = is_causal(kernel)
        self.row = self.rows[0].name if len(self.rows) == 1 else "tile_row"
        self.col = self.cols[0].name if len(self.cols) == 1 else "tile_col"
        block = self.block = Block.of(kernel, schedule, [self.key.name, self.depth.name, self.row, self.col])
        for flat, axes in ((self.row, self.rows), (self.col, self.cols)):
            block.name_flat(axes, flat)
        self.row_count, self.col_count = count_of(block, self.rows), count_of(block, self.cols)
        self.row_tiles = covering(self.row_count, tile.rows)
        self.counters = {name: block.fresh(name) for name in "rcik"}
        self.moved: dict[str, Operand] = {}  # those that move in vectors

    def write(self, template: str) -> None:
        """The body of the kernel."""
        words = {**self.parts(), **self.words()}
        self.block.body = []
        self.block.paste(template, **words)

    def setup(self, threads: int) -> Body:
        """The launch: a block for each tile of queries, and for each tile of columns."""
        counts = [count_of(self.block, self.batch)] if self.batch else []
        blocks = product(*counts, *([] if counts and self.is_one_tile else [self.row_tiles]))
        return constant("threads", threads), sides("blocks", blocks, covering(self.col_count, self.tile.cols))

    @property
    def is_one_tile(self) -> bool:
        """Whether all queries are in one tile."""
        return self.row_tiles == code(1)

    def words(self) -> Words:
        """Names, types and numbers."""
        tile, dtype, counter = self.tile, self.stage.dtype, self.counters["c"]
        single = dtype == "float32"
        own_rows, own_keys, own_cols = (size // SIDE for size in (tile.rows, tile.keys, tile.cols))
        sizes = {"rows": tile.rows, "keys": tile.keys, "cols": tile.cols, "query_width": tile.rows + PADDING}
        sizes |= {"key_width": tile.keys + PADDING, "value_width": tile.cols + PADDING}
        sizes |= {"slice": slice_of(self.kernel), "own_rows": own_rows, "own_keys": own_keys, "own_cols": own_cols}
        return {
            **self.names(),
            **sizes,
            "T": C_TYPES[dtype],
            "zero": number(0, dtype),
            "exp": "expf" if single else "exp",
            "max": "fmaxf" if single else "fmax",
            "key_place": _own_place(own_keys, counter),
            "col_place": _own_place(own_cols, counter),
        }

    def names(self) -> Words:
        """Of positions and counts, and the divisor of a row's sums."""
        limit, total = self.block.index(self.key.extent), Name("own_totals")[self.counters["r"]]
        zero, one = (number(value, self.stage.dtype) for value in (0, 1))
        return {
            **{name: Name(counter) for name, counter in self.counters.items()},
            "row": Name(self.row),
            "col": Name(self.col),
            "j": Name(self.key.name),
            "d": Name(self.depth.name),
            "row_count": self.row_count,
            "col_count": self.col_count,
            "key_count": limit,
            "depth_count": self.block.index(self.depth.extent),
            "moved": tuple(self.moved),
            "in_parts": bool(self.key.extent.variables),
            "key_end": Name("key_end") if self.is_causal else limit,
            "total": Group(Choice(total.equals(zero), one, total)) if self.value.safe else total,
        }

    def parts(self) -> Parts:
        """The statements that depend on what is attended to."""
        row, col, value = (self.row, self.rows), (self.col, self.cols), self.value
        score = Name("own_scores")[self.counters["r"]][self.counters["c"]]
        self.write_positions()
        self.hoist_score()
        head, key, depth = (*self.block.body, *self.own_places()), (self.key.name, (self.key,)), (self.depth,)
        brought = {
            "query": self.brought("query", value.query, row, depth, row),
            "key": self.brought("key", value.key, key, depth, key),
            "element": self.brought("element", value.element, col, (self.key,), key),
        }
        if aligned := alignment(self.block, list(self.moved.values())):
            head = (*head, Declare("bool", ((Name("aligned"), aligned),)))
        return {
            "positions": Inserted(head, 1),
            **brought,
            "score": self.assigned(value.score, row, rename={"score": score}),
            "store": self.block.inserted(4, {self.stage.local: Name("result")}, self.write_stores, row, col),
            "log_sum": self.log_sum(),
        }

    def counted(self, name: str) -> tuple[str, Expression]:
        """A position and how many there are."""
        known = {self.row: self.row_count, self.col: self.col_count}
        return name, known.get(name) or self.block.index((self.key if name == self.key.name else self.depth).extent)

    def brought(self, name: str, value: Scalar, along: Flat, inner: tuple[Variable, ...], line: Flat) -> Inserted:
        """The statement that loads an element at a line, or four neighbours, if they are such in memory: along the
        depth, or of a value along the columns."""
        operand = Operand(name, self.stage.dtype, value, along[1], inner, *self.counted(along[0]))
        if self.stage.dtype != "float32" or operand.base is None or operand.along_depth == (name == "element"):
            return self.assigned(value, along)
        self.moved[name] = operand
        step, count = self.counted(along[0] if name == "element" else self.depth.name)
        rest = Choice(Name(line[0]) < self.counted(line[0])[1], count - Name(step), code(0))

        def write() -> None:
            loaded = apply("load_four", pointer_at(self.block, operand, Name(step)), rest, "aligned")
            self.block.declare("four", loaded, "float4")

        return self.block.inserted(4, {}, write, along)

    def hoist_score(self) -> None:
        """Compute ahead of the loops what the scores need and what is the same for all, under a causal mask as well."""
        score = plain(self.value.score)
        for part in (score.yes, score) if isinstance(score, Choose) and self.is_causal else (score,):
            self.block.hoist(part, frozenset(self.batch), frozenset())

    def assigned(
        self, value: Scalar, *flat: Flat, rename: Mapping[str, Expression] | None = None, depth: int = 5
    ) -> Inserted:
        """The statement that gives `value` what a scalar is, with what it needs."""
        block = self.block
        return self.block.inserted(depth, rename or {}, lambda: block.assign("value", block.value(value)), *flat)

    def write_positions(self) -> None:
        block, first = self.block, BLOCK_X * self.tile.rows
        entry: Expression = BLOCK_X
        if self.batch and not self.is_one_tile:
            block.declare("row_tiles", self.row_tiles)
            entry, first = BLOCK_X / "row_tiles", BLOCK_X % "row_tiles" * self.tile.rows
        if len(self.batch) == 1:
            block.declare(self.batch[0].name, entry)
        elif self.batch:
            flat = block.fresh("entry")
            block.declare(flat, entry)
            decode(block, flat, self.batch, frozenset(self.batch))
        if self.key.extent.variables:
            block.name_formula(self.key.extent, "part_keys")
        block.declare("first_row", 0 if self.is_one_tile else first)
        if self.is_causal:
            end = apply("min", block.index(self.key.extent), Name("first_row") + self.tile.rows)
            block.declare("key_end", end, note="no query of this block sees more")

    def own_places(self) -> Body:
        """Where a thread's rows and columns are in a tile."""
        rows = self.tile.rows // SIDE
        return (
            constant("first_col", BLOCK_Y * self.tile.cols),
            constant("own_row", THREAD_X / SIDE * rows if rows > 1 else THREAD_X / SIDE),
            constant("own_col", THREAD_X % SIDE),
        )

    def log_sum(self) -> Inserted:
        """The statement that stores the logarithm of the sum of a row's exponentials, if keys are attended in parts."""
        block, r = self.block, self.counters["r"]
        sums = apply("logf" if self.stage.dtype == "float32" else "log", Name("own_totals")[r])
        rename = {LOG_SUM: Name("own_largest")[r] + sums}

        def write() -> None:
            for store in self.kernel.stores:
                if _is_log_sum(store):
                    write_store(block, store)

        return self.block.inserted(3, rename, write, (self.row, self.rows))

    def write_stores(self) -> None:
        block, buffer = self.block, self.stage.buffer
        if buffer is not None:
            place = block.printer.offset(buffer, self.stage.index)
            block.assign(Name(buffer.name)[place], stored(Name("result"), buffer.dtype))
        for store in self.kernel.stores:
            if not _is_log_sum(store):
                write_store(block, store)


def _is_log_sum(store: Store) -> bool:
    return isinstance(store.value, Local) and store.value.name == LOG_SUM


def _own_place(count: int, counter: str) -> str:
    """The place in a tile of a thread's key or column: groups of four, or of fewer, spread over the tile."""
    group = min(count, 4)
    start = f"own_col * {group} + " if group > 1 else "own_col + "
    if count == 1:
        return "own_col"
    return f"{start}{counter}" if count == group else f"{counter} / 4 * {4 * SIDE} + {start}{counter} % 4"
