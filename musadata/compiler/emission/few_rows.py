"""Products of a few rows, or of a few columns: the large operand decides how long they take.

Each of its elements is read once, in vectors, and meets all of the few rows in registers. Where its neighbours lie
along the depth, the lanes of a warp go along it together; else each thread has some neighbouring columns. Those of half
types are multiplied on tensor cores: what a thread loads is part of a fragment, if the depth is taken in another order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from musadata.compiler.emission.block import UNROLL, Block, decode_used
from musadata.compiler.emission.cpp import (
    VECTORS,
    helper_name,
    helpers,
    number,
    total,
    vector_functions,
)
from musadata.compiler.emission.launch import EmittedKernel, constant, count_of, finish, sides
from musadata.compiler.emission.tile_operands import (
    Operand,
    alignment,
    flat_name,
    load_functions,
    pointer_at,
)
from musadata.compiler.emission.tiled import depth_of, partition, parts_of, write_batch, write_results
from musadata.compiler.ir.code import (
    BLOCK_X,
    BLOCK_Y,
    THREAD_X,
    Assign,
    Body,
    Braces,
    Choice,
    Expression,
    Group,
    Name,
    Number,
    apply,
    code,
    covering,
    every,
)
from musadata.compiler.ir.index_formulas import Variable, product
from musadata.compiler.ir.scalar import Load, Scalar
from musadata.compiler.ir.schedule import Bind, Combine, Schedule, Stage, Step, TensorCore, Tile
from musadata.compiler.lowering.fusion import Kernel
from musadata.compiler.lowering.layout import flat_position

MOST_ROWS = 16  # a thread holds a sum for each
_NONE = Number("0")
_WARPS, _THREADS, _SLICE = 8, 128, 128
_SHARING, _LINES = 12, 64  # warps that share the depth, and lines of the large operand that a block has of it
_NAMES = ("lane", "first_few", "first_many", "few_part", "many_part", "few_tile", "sums", "total", "aligned", "end")
_NAMES_OF_FRAGMENTS = ("warp", "own_many", "start", "few_pairs", "words", "rest", "at", "warp_sums", "sum")


@dataclass(frozen=True)
class _Side:
    """Rows or columns: their axes, the name of the position over them, how many there are, and the operand."""

    axes: tuple[Variable, ...]
    name: str
    count: Expression
    operand: Operand

    @property
    def inside(self) -> tuple[Expression, ...]:
        """The condition that a position is inside, if there is more than one."""
        return (Name(self.name) < self.count,) if self.axes else ()


def can_stream(kernel: Kernel, few: int) -> bool:
    """Whether the operand that does not have the few rows, or columns if `few` is 1, moves in vectors; and, if it does
    so along the depth, the other one as well."""
    stage, parts = kernel.reductions[0], partition(kernel)
    if parts is None or not parts[2 - few] or len(stage.axes) != 1 or stage.dtype != "float32":
        return False
    sides = stage.operands
    if _memory(sides[1 - few]) not in VECTORS:
        return False
    many = _operand("", sides[1 - few], parts[2 - few], kernel)
    if many.base is None or not many.along_depth:
        return many.base is not None
    other = _operand("", sides[few], parts[1 + few], kernel)
    return other.dtype == many.dtype and other.base is not None and other.along_depth


def can_use_fragments(kernel: Kernel, few: int) -> bool:
    """Whether tensor cores multiply what can stream: operands of one half type, the smaller one in vectors along the
    depth, the larger one across it."""
    sides, parts = kernel.reductions[0].operands, parts_of(kernel)
    small, large = (_operand("", sides[one], parts[1 + one], kernel) for one in (few, 1 - few))
    if large.dtype != small.dtype or large.dtype not in ("float16", "bfloat16") or not small.axes:
        return False
    return large.base is not None and not large.along_depth and small.base is not None and small.along_depth


def _memory(value: Scalar) -> str:
    return value.buffer.dtype if isinstance(value, Load) else ""


def _operand(
    name: str, value: Scalar, axes: tuple[Variable, ...], kernel: Kernel, count: Expression = _NONE
) -> Operand:
    return Operand(name, _memory(value), value, axes, kernel.reductions[0].axes, name, count)


def steps_for(kernel: Kernel, few: int, count: int) -> tuple[Step, ...]:
    """A warp for each line of the large operand, or a thread for some neighbouring ones; `few` is 1 where columns are
    few instead of rows, and `count` is how many there are. A block's tile has some lines and all of few ones; the depth
    is not cut."""
    rows = next(size for size in (1, 2, 4, 8, MOST_ROWS) if size >= min(count, MOST_ROWS))

    def tile(lines: int, rows: int = rows) -> Tile:
        return Tile(lines, rows, 1, True) if few else Tile(rows, lines, 1)

    if can_use_fragments(kernel, few):  # which have sixteen rows, or half of them
        return tile(_LINES, max(8, rows)), Bind("lines", "warp", _SHARING), TensorCore("lines")
    many = _operand("", kernel.reductions[0].operands[1 - few], parts_of(kernel)[2 - few], kernel)
    if many.along_depth:
        return tile(_WARPS), Bind("lines", "warp", _WARPS), Combine("inner", "shuffle")
    return tile(_THREADS * many.group), Bind("lines", "thread", _THREADS), Stage("operands", "shared", _SLICE)


def emit_few_rows(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """The kernel by the way that its large operand lies in memory."""
    lines = _FewRows(kernel, schedule)
    return lines.emit_fragments() if schedule.find(TensorCore) else lines.emit_lines()


class _FewRows:
    """The kernel under construction. `few` and `many` are rows and columns, or the other way round."""

    def __init__(self, kernel: Kernel, schedule: Schedule):
        self.schedule, tile = schedule, schedule.get(Tile)
        few = int(tile.rows_first)
        self.kernel, self.stage, parts = kernel, kernel.reductions[0], parts_of(kernel)
        self.batch, self.k = parts[0], self.stage.axes[0].name
        own = [self.k, "tile_row", "tile_col", self.stage.local, *_NAMES, *_NAMES_OF_FRAGMENTS]
        self.block = Block.of(kernel, schedule, own)
        both = []
        for side, value, axes in zip(("left", "right"), self.stage.operands, parts[1:], strict=True):
            name, count = flat_name(side, axes) if axes else "", count_of(self.block, axes)
            both.append(_Side(axes, name, count, _operand(name, value, axes, kernel, count)))
            self.block.name_flat(axes, name)
        self.few, self.many, self.rows = both[few], both[1 - few], tile.sides[1 if few else 0]

    def emit_lines(self) -> EmittedKernel:
        """A warp for each line, whose lanes go along the depth, or a thread for some neighbouring ones."""
        block, operand = self.block, self.many.operand
        along_depth, group = operand.along_depth, operand.group
        if along_depth:
            mine, width, threads = BLOCK_X * _WARPS + THREAD_X / 32, _WARPS, _WARPS * 32
            block.declare("lane", THREAD_X % 32)
        else:
            mine, width, threads = (BLOCK_X * _THREADS + THREAD_X) * group, _THREADS * group, _THREADS
        block.declare(self.many.name if along_depth else "first_many", mine)
        if self.few.axes:
            block.declare("first_few", BLOCK_Y * self.rows)
        write_batch(block, self.batch)
        operands = [operand, *([self.few.operand] if along_depth else [])]
        host = not along_depth and not self.schedule.alike  # layers share kernels, but no templates
        if not host and (aligned := alignment(block, operands)):
            block.declare("aligned", aligned, "bool")
        depth = depth_of(block, self.stage.axes)
        (self._write_along_depth if along_depth else self._write_along_columns)(depth)
        used = [VECTORS[operand.dtype]["spread"], *(["dot"] if along_depth else [])]
        functions = [*load_functions(operands), *vector_functions(operand.dtype, *used)]
        functions += helpers(self.kernel, "warp") if along_depth else []
        return finish(
            self.kernel,
            self.schedule,
            block,
            self._setup(threads, width),
            threads=(threads,),
            helpers=functions,
            bounds=threads,
            aligned=alignment(block, operands, host=True) if host else None,
        )

    def _setup(self, threads: int, lines: int) -> Body:
        blocks = [covering(self.many.count, lines), covering(self.few.count, self.rows)]
        blocks += [count_of(self.block, self.batch)] if self.batch else []
        return constant("threads", threads), sides("blocks", *blocks)

    def emit_fragments(self) -> EmittedKernel:
        """A block has some lines of the large operand and all of the depth, which its warps share."""
        block, many, few = self.block, self.many, self.few
        operands = [many.operand, few.operand]
        block.declare_all(lane=THREAD_X % 32, warp=THREAD_X / 32)
        block.declare_all(first_many=BLOCK_X * _LINES, first_few=BLOCK_Y * self.rows)
        block.declare("own_many", Name("first_many") + Name("lane") / 4 * 8, note="the first of eight")
        write_batch(block, self.batch)
        if self.schedule.alike and (aligned := alignment(block, operands)):
            block.declare("aligned", aligned, "bool")
        self._write_products(depth_of(block, self.stage.axes))
        self._write_total()
        dtype = many.operand.dtype
        return finish(
            self.kernel,
            self.schedule,
            block,
            self._setup(_SHARING * 32, _LINES),
            threads=(_SHARING * 32,),
            helpers=[*load_functions(operands), *vector_functions(dtype, "load_pairs", "multiply_fragments")],
            bounds=_SHARING * 32,
            aligned=None if self.schedule.alike else alignment(block, operands, host=True),
        )

    def _write_products(self, depth: Expression) -> None:
        """Along a warp's part of the depth: a thread takes four of each 16 steps, of which it loads the eight lines'
        neighbours that are its own, and of the few rows the elements that its fragments have there."""
        block, many, few, k, i, lane = self.block, self.many, self.few, Name(self.k), Name("i"), Name("lane")
        block.array("float", "sums", 8, 4, value=Braces())
        with block.loop("start", Name("warp") * 16, depth, _SHARING * 16, unroll=f"{UNROLL} 4"):
            block.declare(k.name, Name("start") + lane % 4 * 4, note="a sum may take the depth in any order")
            block.array("unsigned", "few_part", 4, value=Braces())
            with block.unrolled("i", self.rows // 8):
                block.declare(few.name, Name("first_few") + lane / 4 + i * 8)
                rest = Choice(Name(few.name) < few.count, depth - k, code(0))
                head = len(block.body)
                block.declare("few_pairs", apply("load_pairs", self._pointer(few, k), rest, "aligned"), "uint2")
                decode_used(block, head, (few.name, few.axes))
                block.assign(Name("few_part")[i], Name("few_pairs").member("x"))
                block.assign(Name("few_part")[i + 2], Name("few_pairs").member("y"))
            block.array("uint4", "many_part", 4)
            with block.unrolled("i", 4):
                block.printer.rename = {k.name: Group(k + i)}
                pointer = self._pointer(replace(many, name="own_many"), Name("own_many"))
                block.printer.rename = None
                block.declare("rest", Choice(k + i < depth, many.count - "own_many", code(0)))
                block.assign(Name("many_part")[i], apply("load_eight", pointer, "rest", "aligned"))
            block.paste("fragment_products")

    def _write_total(self) -> None:
        """Warps add up what they have by shared memory; a thread's fragments have eight neighbours of two places."""
        block, many, few = self.block, self.many, self.few
        block.paste("fragment_sums", warps=_SHARING, rows=self.rows, lines=_LINES)
        with block.loop("at", THREAD_X, self.rows * _LINES, _SHARING * 32):
            names = {"few": Name(few.name), "many": Name(many.name)}
            block.paste("fragment_total", warps=_SHARING, lines=_LINES, **names)
            self._write_results(every(*few.inside, *many.inside), Name("sum"))

    def _write_along_depth(self, depth: Expression) -> None:
        block, many, few, group, k = self.block, self.many, self.few, self.many.operand.group, Name(self.k)
        block.leave(Name(many.name) >= many.count, note="the whole warp leaves")
        block.array("float", "sums", self.rows, value=Braces())
        kind, sums = VECTORS[many.operand.dtype]["V"], Name("sums")["i"]
        unroll = f"{UNROLL} 4" if self.rows == 1 else ""
        with block.loop(self.k, Name("lane") * group, depth, 32 * group, unroll=unroll):
            with self._vector(many, depth - k) as vector:
                block.declare("many_part", vector, kind)
            with self._each_row():
                rest = Choice(few.inside[0], depth - k, code(0)) if few.axes else depth - k
                with self._vector(few, rest) as vector:
                    block.declare("few_part", vector, kind)
                block.assign(sums, apply("dot", "few_part", "many_part"), "+=")
        with self._each_row():
            block.declare("total", apply(helper_name("warp", "sum"), sums), "float")
            self._write_results(every(Name("lane").equals(0), *few.inside), Name("total"))

    def _write_along_columns(self, depth: Expression) -> None:
        block, many, few, group, k = self.block, self.many, self.few, self.many.operand.group, Name(self.k)
        start, sums = Name("start"), Name("sums")["i"]["j"]
        block.shared("float", "few_tile", _SLICE, self.rows, aligned=True)
        block.array("float", "sums", self.rows, group, value=Braces())
        with block.loop("start", 0, depth, _SLICE):
            block.barrier("nobody reads the slice before it any more")
            self._write_slice(depth)
            block.barrier()
            block.declare("end", apply("min", depth, start + _SLICE))
            with (
                block.when(Name("first_many") < many.count),  # so that the loads inside need no condition
                block.loop(self.k, start, "end", unroll=f"{UNROLL} 8"),
            ):
                block.array("float", "many_part", group)
                with self._vector(replace(many, name="first_many"), many.count - "first_many") as vector:
                    block.run("spread", vector, "many_part")
                with self._each_row(position=False):
                    added = Assign(sums, "+=", Name("few_tile")[k - start]["i"] * Name("many_part")["j"])
                    block.unrolled_line("j", group, added)
        with self._each_row(), block.unrolled("j", group):
            block.declare(many.name, Name("first_many") + "j")
            self._write_results(every(*few.inside, *many.inside), sums)

    def _write_slice(self, depth: Expression) -> None:
        """Bring a slice of the few rows to shared memory, as floats."""
        block, few, i, k = self.block, self.few, Name("i"), Name(self.k)
        with block.loop("i", THREAD_X, _SLICE * self.rows, _THREADS):
            block.declare(k.name, Name("start") + i % _SLICE)
            if few.axes:
                block.declare(few.name, Name("first_few") + i / _SLICE)
            block.variable("float", "few_part", number(0, "float32"))
            with block.when(every(k < depth, *few.inside)):
                head = len(block.body)
                block.assign("few_part", block.value(few.operand.value))
                decode_used(block, head, (few.name, few.axes))
            block.assign(Name("few_tile")[i % _SLICE][i / _SLICE], "few_part")

    @contextmanager
    def _each_row(self, *, position: bool = True) -> Iterator[None]:
        with self.block.unrolled("i", self.rows):
            if position and self.few.axes:
                self.block.declare(self.few.name, Name("first_few") + "i")
            yield

    @contextmanager
    def _vector(self, side: _Side, rest: Expression) -> Iterator[Expression]:
        """What loads a vector of an operand, of which `rest` elements are left; a statement inside uses it."""
        operand, block, head = side.operand, self.block, len(self.block.body)
        at = Name(self.k if operand.along_depth else side.name)
        yield apply(VECTORS[operand.dtype]["load"], self._pointer(side, at), rest, "aligned")
        if operand.along_depth:
            decode_used(block, head, (side.name, side.axes))

    def _pointer(self, side: _Side, at: Expression) -> Expression:
        """Where a vector of an operand begins; the position over several axes is taken apart only where that is
        needed."""
        operand, terms = side.operand, self.block.printer.terms
        base, depth = operand.base, product(axis.extent for axis in self.stage.axes)
        assert base is not None
        rest = base - flat_position(side.axes) * depth
        if len(side.axes) < 2 or rest.variables & frozenset(side.axes):
            return pointer_at(self.block, operand, at)
        own = Name(side.name) * self.block.index(depth)
        return total([("+", Name(operand.buffer)), ("+", own), *terms(rest), ("+", at)])

    def _write_results(self, inside: Expression, found: Expression) -> None:
        block, head = self.block, 0
        block.printer.rename = {self.stage.local: found}
        with block.when(inside):
            head = len(block.body)
            write_results(block, self.kernel)
            decode_used(block, head, *((side.name, side.axes) for side in (self.few, self.many)))
