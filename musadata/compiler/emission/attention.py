"""Attention in one kernel: a block keeps some queries and goes along the keys in tiles, with an online softmax."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from musadata.compiler.emission.cpp import C_TYPES, number_text
from musadata.compiler.emission.launch import EmittedKernel, count_text, finish
from musadata.compiler.emission.pointwise import stored, write_store
from musadata.compiler.emission.statements import INDEX, Block, decode
from musadata.compiler.emission.tiled import decode_used, partition, tile_count
from musadata.compiler.ir.index_formulas import Variable, of
from musadata.compiler.ir.scalar import Attended, Choose, Compare, Literal, Scalar, plain
from musadata.compiler.ir.schedule import Carry, Schedule, Split, Stage, Step
from musadata.compiler.lowering.fusion import Kernel

SIDE = 16  # the 256 threads of a block are a square
BUSY_BLOCKS = 264  # two for each multiprocessor of a large GPU
_PADDING = 4  # elements at the end of a tile's row, so that threads which write a column reach different banks
_BODY = Template((Path(__file__).parent / "templates" / "attention.txt").read_text(encoding="utf-8").rstrip("\n"))


@dataclass(frozen=True)
class AttentionTile:
    """A block has `rows` queries and `cols` columns of the values, and takes `keys` keys at a time."""

    rows: int
    keys: int
    cols: int

    def steps(self) -> tuple[Step, ...]:
        split = Split("rows", self.rows), Split("columns", self.cols)
        return *split, Stage("keys", "shared", self.keys), Carry("keys", "pieces")


def can_attend(kernel: Kernel) -> bool:
    """Whether what a kernel with attention stores has axes that fall into batch, queries and columns."""
    return partition(kernel) is not None


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
    block.lines = _BODY.substitute(attention.words(), **attention.parts()).split("\n")
    setup = attention.setup(SIDE * SIDE)
    return finish(kernel, schedule, block, setup, threads=(SIDE * SIDE,), bounds=SIDE * SIDE)


class Attention:
    """What is put into the template."""

    def __init__(self, kernel: Kernel, schedule: Schedule):
        sides = schedule.get(Split, "rows").amount, schedule.get(Stage).amount, schedule.get(Split, "columns").amount
        self.tile = tile = AttentionTile(*sides)
        self.kernel, self.stage, parts = kernel, kernel.reductions[0], partition(kernel)
        assert isinstance(self.stage.value, Attended) and parts is not None
        self.value, (self.batch, self.rows, self.cols) = self.stage.value, parts
        self.key, self.depth = self.stage.axes
        self.row = self.rows[0].name if len(self.rows) == 1 else "tile_row"
        self.col = self.cols[0].name if len(self.cols) == 1 else "tile_col"
        block = self.block = Block.of(kernel, schedule, [self.key.name, self.depth.name, self.row, self.col])
        for flat, axes in ((self.row, self.rows), (self.col, self.cols)):
            block.name_flat(axes, flat)
        self.row_count, self.col_count = count_text(block, self.rows), count_text(block, self.cols)
        self.row_tiles = tile_count(self.row_count, tile.rows)
        self.counters = {name: block.fresh(name) for name in "rcik"}

    def setup(self, threads: int) -> tuple[str, ...]:
        """The launch: a block for each tile of queries, and for each tile of columns."""
        tiles = self.row_tiles if "/" not in self.row_tiles else f"({self.row_tiles})"
        counts = [count_text(self.block, self.batch)] if self.batch else []
        blocks = " * ".join([*counts, tiles] if tiles != "1" else counts) or tiles
        columns = tile_count(self.col_count, self.tile.cols)
        return f"const int threads = {threads};", f"const dim3 blocks({blocks}, {columns});"

    def words(self) -> dict[str, str]:
        """Names, types and numbers."""
        tile, dtype, counter = self.tile, self.stage.dtype, self.counters["c"]
        single, zero = dtype == "float32", number_text(0, dtype)
        own_rows, own_keys, own_cols = (size // SIDE for size in (tile.rows, tile.keys, tile.cols))
        sizes = {"rows": tile.rows, "keys": tile.keys, "cols": tile.cols, "query_width": tile.rows + _PADDING}
        sizes |= {"key_width": tile.keys + _PADDING, "value_width": tile.cols + _PADDING}
        sizes |= {"own_rows": own_rows, "own_keys": own_keys, "own_cols": own_cols}
        return {
            **self.names(),
            **{name: str(size) for name, size in sizes.items()},
            "T": C_TYPES[dtype],
            "zero": zero,
            "exp": "expf" if single else "exp",
            "max": "fmaxf" if single else "fmax",
            "own_row_step": f" * {own_rows}" if own_rows > 1 else "",
            "key_place": _own_place(own_keys, counter),
            "col_place": _own_place(own_cols, counter),
        }

    def names(self) -> dict[str, str]:
        """Of positions and counts, and the divisor of a row's sums."""
        limit, total = self.block.index(self.key.extent), f"own_totals[{self.counters['r']}]"
        zero, one = (number_text(number, self.stage.dtype) for number in (0, 1))
        return {
            **self.counters,
            "row": self.row,
            "col": self.col,
            "j": self.key.name,
            "d": self.depth.name,
            "row_count": self.row_count,
            "col_count": self.col_count,
            "key_count": limit,
            "depth_count": self.block.index(self.depth.extent),
            "key_end": "key_end" if self.is_causal() else limit,
            "total": f"({total} == {zero} ? {one} : {total})" if self.value.safe else total,
        }

    def parts(self) -> dict[str, str]:
        """The statements that depend on what is attended to."""
        row, col, value = (self.row, self.rows), (self.col, self.cols), self.value
        score = f"own_scores[{self.counters['r']}][{self.counters['c']}]"
        self.write_positions()
        self.hoist_score()
        return {
            "positions": "\n".join(self.block.lines),
            "query": self.assigned(value.query, row),
            "key": self.assigned(value.key),
            "score": self.assigned(value.score, row, rename={"score": score}),
            "element": self.assigned(value.element, col),
            "store": self.lines(4, {self.stage.local: "result"}, self.write_stores, row, col),
        }

    def hoist_score(self) -> None:
        """Compute ahead of the loops what the scores need and what is the same for all, under a causal mask as well."""
        score = plain(self.value.score)
        for part in (score.yes, score) if isinstance(score, Choose) and self.is_causal() else (score,):
            self.block.hoist(part, frozenset(self.batch), frozenset())

    def assigned(
        self,
        value: Scalar,
        *flat: tuple[str, tuple[Variable, ...]],
        rename: Mapping[str, str] | None = None,
        depth: int = 5,
    ) -> str:
        """The statement that gives `value` what a scalar is, with what it needs."""
        return self.lines(depth, rename or {}, lambda: self.block.write(f"value = {self.block.value(value)};"), *flat)

    def lines(
        self,
        depth: int,
        rename: Mapping[str, str],
        write: Callable[[], None],
        *flat: tuple[str, tuple[Variable, ...]],
    ) -> str:
        """What a function writes at a depth; the axes that it uses are computed from flat positions first."""
        block = self.block
        block.lines, block.depth, block.printer.rename = [], depth - 1, rename
        with block.scope(""):
            write()
        block.lines, block.depth = block.lines[1:-1], depth
        decode_used(block, 0, *flat)
        return "\n".join(block.lines)

    def write_positions(self) -> None:
        block, tiles, entry, first = self.block, self.row_tiles, "blockIdx.x", f"blockIdx.x * {self.tile.rows}"
        if self.batch and tiles != "1":
            block.write(f"const {INDEX} row_tiles = {tiles};")
            entry, first = "blockIdx.x / row_tiles", f"blockIdx.x % row_tiles * {self.tile.rows}"
        if len(self.batch) == 1:
            block.write(f"const {INDEX} {self.batch[0].name} = {entry};")
        elif self.batch:
            flat = block.fresh("entry")
            block.write(f"const {INDEX} {flat} = {entry};")
            decode(block, flat, self.batch, frozenset(self.batch))
        block.write(f"const {INDEX} first_row = {'0' if tiles == '1' else first};")
        if self.is_causal():
            end = f"min({block.index(self.key.extent)}, first_row + {self.tile.rows})"
            block.write(f"const {INDEX} key_end = {end};  // no query of this block sees more")

    def is_causal(self) -> bool:
        """Whether a query sees no key behind its own place."""
        row = self.rows[0] if len(self.rows) == 1 else None
        match plain(self.value.score):
            case Choose(condition=Compare(relation="<=", left=left, right=right), no=Literal(value=no)):
                return row is not None and left == of(self.key) and right == of(row) and no == -math.inf
        return False

    def write_stores(self) -> None:
        block, buffer = self.block, self.stage.buffer
        if buffer is not None:
            place = block.printer.offset(buffer, self.stage.index)
            block.write(f"{buffer.name}[{place}] = {stored('result', buffer.dtype)};")
        for store in self.kernel.stores:
            write_store(block, store)


def _own_place(count: int, counter: str) -> str:
    """The place in a tile of a thread's key or column: groups of four, or of fewer, spread over the tile."""
    group = min(count, 4)
    start = f"own_col * {group} + " if group > 1 else "own_col + "
    if count == 1:
        return "own_col"
    return f"{start}{counter}" if count == group else f"{counter} / 4 * {4 * SIDE} + {start}{counter} % 4"
