"""Products of a few rows, or of a few columns: the large operand decides how long they take.

Each of its elements is read once, in vectors, and meets all of the few rows in registers. Where its neighbours lie
along the depth, the lanes of a warp go along it together; else each thread has some neighbouring columns. Those of half
types are multiplied on tensor cores: what a thread loads is part of a fragment, if the depth is taken in another order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from musadata.compiler.emission.cpp import (
    DOTS,
    LOADS,
    PAIRS,
    PRODUCT,
    SPREADS,
    fragment_functions,
    helper_name,
    helpers,
)
from musadata.compiler.emission.launch import EmittedKernel, count_text, finish
from musadata.compiler.emission.statements import INDEX, Block
from musadata.compiler.emission.tile_operands import (
    VECTORS,
    Operand,
    alignment,
    flat_name,
    load_functions,
)
from musadata.compiler.emission.tiled import (
    decode_used,
    depth_of,
    partition,
    tile_count,
    write_batch,
    write_results,
)
from musadata.compiler.ir.index_formulas import Variable, product
from musadata.compiler.ir.scalar import Load, Scalar
from musadata.compiler.ir.schedule import Bind, Combine, Schedule, Stage, Step, TensorCore, Tile
from musadata.compiler.lowering.fusion import Kernel
from musadata.compiler.lowering.layout import flat_position

MOST_ROWS = 16  # a thread holds a sum for each
_WARPS, _THREADS, _SLICE = 8, 128, 128
_SHARING, _LINES = 12, 64  # warps that share the depth, and lines of the large operand that a block has of it
_NAMES = ("lane", "first_few", "first_many", "few_part", "many_part", "few_tile", "sums", "total", "aligned", "end")
_NAMES_OF_FRAGMENTS = ("warp", "own_many", "start", "few_pairs", "words", "rest", "at", "warp_sums", "sum")


@dataclass(frozen=True)
class _Side:
    """Rows or columns: their axes, the name of the position over them, how many there are, and the operand."""

    axes: tuple[Variable, ...]
    name: str
    count: str
    operand: Operand


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
    stage, parts = kernel.reductions[0], partition(kernel)
    assert parts is not None
    sides = stage.operands
    small, large = (_operand("", sides[one], parts[1 + one], kernel) for one in (few, 1 - few))
    if large.dtype != small.dtype or large.dtype not in ("float16", "bfloat16") or not small.axes:
        return False
    return large.base is not None and not large.along_depth and small.base is not None and small.along_depth


def _memory(value: Scalar) -> str:
    return value.buffer.dtype if isinstance(value, Load) else ""


def _operand(name: str, value: Scalar, axes: tuple[Variable, ...], kernel: Kernel, count: str = "") -> Operand:
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
    parts = partition(kernel)
    assert parts is not None
    many = _operand("", kernel.reductions[0].operands[1 - few], parts[2 - few], kernel)
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
        self.kernel, self.stage, parts = kernel, kernel.reductions[0], partition(kernel)
        assert parts is not None
        self.batch, self.k = parts[0], self.stage.axes[0].name
        own = [self.k, "tile_row", "tile_col", self.stage.local, *_NAMES, *_NAMES_OF_FRAGMENTS]
        self.block = Block.of(kernel, schedule, own)
        sides = []
        for side, value, axes in zip(("left", "right"), self.stage.operands, parts[1:], strict=True):
            name, number = flat_name(side, axes) if axes else "", count_text(self.block, axes)
            sides.append(_Side(axes, name, number, _operand(name, value, axes, kernel, number)))
            self.block.name_flat(axes, name)
        self.few, self.many, self.rows = sides[few], sides[1 - few], tile.sides[1 if few else 0]

    def emit_lines(self) -> EmittedKernel:
        """A warp for each line, whose lanes go along the depth, or a thread for some neighbouring ones."""
        block, operand = self.block, self.many.operand
        along_depth, group = operand.along_depth, operand.group
        if along_depth:
            mine, width, threads = f"blockIdx.x * {_WARPS} + threadIdx.x / 32", _WARPS, _WARPS * 32
            block.write(f"const {INDEX} lane = threadIdx.x % 32;")
        else:
            mine, width, threads = f"(blockIdx.x * {_THREADS} + threadIdx.x) * {group}", _THREADS * group, _THREADS
        first = self.many.name if along_depth else "first_many"
        block.write(f"const {INDEX} {first} = {mine};")
        if self.few.axes:
            block.write(f"const {INDEX} first_few = blockIdx.y * {self.rows};")
        write_batch(block, self.batch)
        operands = [operand, *([self.few.operand] if along_depth else [])]
        host = not along_depth and not self.schedule.alike  # layers share kernels, but no templates
        if not host:
            block.write(f"const bool aligned = {alignment(block, operands)};")
        depth = depth_of(block, self.stage)
        (self._write_along_depth if along_depth else self._write_along_columns)(depth)
        blocks = [tile_count(self.many.count, width), tile_count(self.few.count, self.rows)]
        blocks += [count_text(block, self.batch)] if self.batch else []
        functions = load_functions(operands) + SPREADS[operand.dtype]
        return finish(
            self.kernel,
            self.schedule,
            block,
            (f"const int threads = {threads};", f"const dim3 blocks({', '.join(blocks)});"),
            threads=(threads,),
            helpers=functions + (DOTS[operand.dtype] + helpers(self.kernel, "warp") if along_depth else ""),
            bounds=threads,
            aligned=alignment(block, operands, host=True) if host else "",
        )

    def emit_fragments(self) -> EmittedKernel:
        """A block has some lines of the large operand and all of the depth, which its warps share."""
        block, many, few = self.block, self.many, self.few
        operands = [many.operand, few.operand]
        block.write(f"const {INDEX} lane = threadIdx.x % 32, warp = threadIdx.x / 32;")
        block.write(f"const {INDEX} first_many = blockIdx.x * {_LINES}, first_few = blockIdx.y * {self.rows};")
        block.write(f"const {INDEX} own_many = first_many + lane / 4 * 8;  // the first of eight")
        write_batch(block, self.batch)
        if self.schedule.alike:
            block.write(f"const bool aligned = {alignment(block, operands)};")
        self._write_products(depth_of(block, self.stage))
        self._write_total()
        blocks = [tile_count(many.count, _LINES), tile_count(few.count, self.rows)]
        blocks += [count_text(block, self.batch)] if self.batch else []
        dtype = many.operand.dtype
        return finish(
            self.kernel,
            self.schedule,
            block,
            (f"const int threads = {_SHARING * 32};", f"const dim3 blocks({', '.join(blocks)});"),
            threads=(_SHARING * 32,),
            helpers=load_functions(operands) + PAIRS[dtype] + fragment_functions(dtype, "multiply"),
            bounds=_SHARING * 32,
            aligned="" if self.schedule.alike else alignment(block, operands, host=True),
        )

    def _write_products(self, depth: str) -> None:
        """Along a warp's part of the depth: a thread takes four of each 16 steps, of which it loads the eight lines'
        neighbours that are its own, and of the few rows the elements that its fragments have there."""
        block, many, few, k, step = self.block, self.many, self.few, self.k, _SHARING * 16
        block.write("float sums[8][4] = {};")
        block.write("#pragma unroll 4")
        with block.scope(f"for ({INDEX} start = warp * 16; start < {depth}; start += {step})"):
            block.write(f"const {INDEX} {k} = start + lane % 4 * 4;  // a sum may take the depth in any order")
            block.write("unsigned few_part[4] = {};")
            with block.unrolled("i", self.rows // 8):
                block.write(f"const {INDEX} {few.name} = first_few + lane / 4 + i * 8;")
                rest = f"{few.name} < {few.count} ? {depth} - {k} : 0"
                head = len(block.lines)
                load = f"load_pairs({few.operand.buffer}{self._base_text(few)} + {k}, {rest}, aligned)"
                block.write(f"const uint2 few_pairs = {load};")
                decode_used(block, head, (few.name, few.axes))
                block.write("few_part[i] = few_pairs.x;")
                block.write("few_part[i + 2] = few_pairs.y;")
            block.write("uint4 many_part[4];")
            with block.unrolled("i", 4):
                rest = f"{k} + i < {depth} ? {many.count} - own_many : 0"
                block.printer.rename = {k: f"({k} + i)"}
                at = f"{many.operand.buffer}{self._base_text(replace(many, name='own_many'))} + own_many"
                block.printer.rename = None
                block.write(f"const {INDEX} rest = {rest};")
                block.write(f"many_part[i] = load_eight({at}, rest, aligned);")
            block.paste("fragment_products")

    def _write_total(self) -> None:
        """Warps add up what they have by shared memory; a thread's fragments have eight neighbours of two places."""
        block, many, few = self.block, self.many, self.few
        block.paste("fragment_sums", warps=_SHARING, rows=self.rows, lines=_LINES)
        with block.scope(f"for (int at = threadIdx.x; at < {self.rows * _LINES}; at += {_SHARING * 32})"):
            block.paste("fragment_total", few=few.name, many=many.name, warps=_SHARING, lines=_LINES)
            self._write_results(f"{few.name} < {few.count} && {many.name} < {many.count}", "sum")

    def _write_along_depth(self, depth: str) -> None:
        block, many, few, group = self.block, self.many, self.few, self.many.operand.group
        block.write(f"if ({many.name} >= {many.count}) return;  // the whole warp leaves")
        block.write(f"float sums[{self.rows}] = {{}};")
        kind = VECTORS[many.operand.dtype][0]
        if self.rows == 1:
            block.write("#pragma unroll 4")
        with block.scope(f"for ({INDEX} {self.k} = lane * {group}; {self.k} < {depth}; {self.k} += {32 * group})"):
            self._write_vector(f"const {kind} many_part", many, f"{depth} - {self.k}")
            with self._each_row():
                rest = f"{few.name} < {few.count} ? {depth} - {self.k} : 0" if few.axes else f"{depth} - {self.k}"
                self._write_vector(f"const {kind} few_part", few, rest)
                block.write("sums[i] += dot(few_part, many_part);")
        with self._each_row():
            block.write(f"const float total = {helper_name('warp', 'sum')}(sums[i]);")
            inside = f"lane == 0 && {few.name} < {few.count}" if few.axes else "lane == 0"
            self._write_results(inside, "total")

    def _write_along_columns(self, depth: str) -> None:
        block, many, few, group = self.block, self.many, self.few, self.many.operand.group
        block.write(f"__shared__ __align__(16) float few_tile[{_SLICE}][{self.rows}];")
        block.write(f"float sums[{self.rows}][{group}] = {{}};")
        with block.scope(f"for ({INDEX} start = 0; start < {depth}; start += {_SLICE})"):
            block.write("__syncthreads();  // nobody reads the slice before it any more")
            self._write_slice(depth)
            block.write("__syncthreads();")
            block.write(f"const {INDEX} end = min({depth}, start + {_SLICE});")
            with block.scope(f"if (first_many < {many.count})"):  # so that the loads inside need no condition
                block.write("#pragma unroll 8")
                with block.scope(f"for ({INDEX} {self.k} = start; {self.k} < end; ++{self.k})"):
                    block.write(f"float many_part[{group}];")
                    self._write_vector("", replace(many, name="first_many"), f"{many.count} - first_many")
                    with self._each_row(position=False):
                        block.write("#pragma unroll")
                        line = f"sums[i][j] += few_tile[{self.k} - start][i] * many_part[j];"
                        block.write(f"for (int j = 0; j < {group}; ++j) {line}")
        with self._each_row(), block.unrolled("j", group):
            block.write(f"const {INDEX} {many.name} = first_many + j;")
            inside = f"{few.name} < {few.count} && " if few.axes else ""
            self._write_results(f"{inside}{many.name} < {many.count}", "sums[i][j]")

    def _write_slice(self, depth: str) -> None:
        """Bring a slice of the few rows to shared memory, as floats."""
        block, few = self.block, self.few
        with block.scope(f"for (int i = threadIdx.x; i < {_SLICE * self.rows}; i += {_THREADS})"):
            block.write(f"const {INDEX} {self.k} = start + i % {_SLICE};")
            inside = f"{self.k} < {depth}"
            if few.axes:
                block.write(f"const {INDEX} {few.name} = first_few + i / {_SLICE};")
                inside += f" && {few.name} < {few.count}"
            block.write("float few_part = 0.0f;")
            with block.scope(f"if ({inside})"):
                head = len(block.lines)
                block.write(f"few_part = {block.value(few.operand.value)};")
                decode_used(block, head, (few.name, few.axes))
            block.write(f"few_tile[i % {_SLICE}][i / {_SLICE}] = few_part;")

    @contextmanager
    def _each_row(self, *, position: bool = True) -> Iterator[None]:
        with self.block.unrolled("i", self.rows):
            if position and self.few.axes:
                self.block.write(f"const {INDEX} {self.few.name} = first_few + i;")
            yield

    def _write_vector(self, target: str, side: _Side, rest: str) -> None:
        """Load a vector of an operand, of which `rest` elements are left; to `many_part`, apart, without a target."""
        operand, block, head = side.operand, self.block, len(self.block.lines)
        base = self._base_text(side)
        at = self.k if operand.along_depth else side.name
        load = f"{LOADS[operand.dtype][0]}({operand.buffer}{base} + {at}, {rest}, aligned)"
        block.write(f"{target} = {load};" if target else f"spread({load}, many_part);")
        if operand.along_depth:
            decode_used(block, head, (side.name, side.axes))

    def _base_text(self, side: _Side) -> str:
        """Where an operand's vectors begin; the position over several axes is taken apart only where that is needed."""
        base, depth = side.operand.base, product(axis.extent for axis in self.stage.axes)
        assert base is not None
        rest = base - flat_position(side.axes) * depth
        if len(side.axes) < 2 or rest.variables & frozenset(side.axes):
            return f" + {self.block.index(base)}" if base.terms else ""
        more = f" + {self.block.index(rest)}" if rest.terms else ""
        return f" + {side.name} * {self.block.printer.index(depth, PRODUCT)}{more}"

    def _write_results(self, inside: str, total: str) -> None:
        block, head = self.block, 0
        block.printer.rename = {self.stage.local: total}
        with block.scope(f"if ({inside})"):
            head = len(block.lines)
            write_results(block, self.kernel)
            decode_used(block, head, *((side.name, side.axes) for side in (self.few, self.many)))
