"""What the schedules of large products share: how threads bring tiles of both operands, slice by slice.

While one slice of the operands is multiplied, the next is on its way from global memory to registers; shared memory
holds both, so that one barrier for each slice is enough.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from musadata.compiler.emission.block import INDEX, Block, decode_used
from musadata.compiler.emission.cpp import C_TYPES, VECTORS, loaded, number, total, vector_functions
from musadata.compiler.emission.held_rows import always_loaded
from musadata.compiler.emission.launch import constant, count_of, sides
from musadata.compiler.emission.pointwise import stored
from musadata.compiler.emission.rowwise import WARP
from musadata.compiler.emission.tiled import BUSY_BLOCKS, grid, parts_of
from musadata.compiler.ir.code import (
    THREAD_X,
    Binary,
    Body,
    Braces,
    Choice,
    Expression,
    Group,
    Lambda,
    Method,
    Name,
    Parameter,
    Statement,
    Unary,
    apply,
    code,
    covering,
    evaluate,
    every,
)
from musadata.compiler.ir.index_formulas import (
    ZERO,
    Index,
    Operation,
    Size,
    Variable,
    as_index,
    divide,
    of,
    product,
)
from musadata.compiler.ir.scalar import Buffer, Choose, Compare, Literal, Load, Scalar, plain
from musadata.compiler.ir.schedule import Step
from musadata.compiler.lowering.fusion import Kernel, Reduce
from musadata.compiler.lowering.layout import flat_position, flatten
from musadata.compiler.lowering.rewriting import substitute
from musadata.tracing.roofline import H100

STAGES = 3  # slices that shared memory holds where copies are asynchronous
_MOST_IDLE = 1.25  # times what the tiles of the shape that fits best compute
_LONG = 8  # elements side by side: a sector of memory


@dataclass(frozen=True)
class BlockTile(ABC):
    """What a block computes: `rows` x `cols` of the result, by slices of `depth` of the operands."""

    rows: int
    cols: int
    depth: int

    @property
    @abstractmethod
    def threads(self) -> int:
        """Of its block."""

    @property
    @abstractmethod
    def work(self) -> tuple[float, float, float]:
        """Of a multiplication: seconds of the unit that does it, words from shared memory, bytes of an element."""

    @abstractmethod
    def steps(self, sizes: tuple[int, int, int], by_taps: bool = False) -> tuple[Step, ...]:
        """The schedule with this tile, for so many products, rows and columns."""

    def seconds(self, sizes: tuple[int, int, int], depth: int) -> float:
        """What a product is expected to take, with all that tiles compute outside of it: as long as the slowest of the
        unit, shared memory and L2, and a quarter of what the others take beside it."""
        (batch, rows, cols), (unit, words, size) = sizes, self.work
        waves = count_blocks(self, *sizes) / H100.multiprocessors
        busy, waves = min(1.0, waves), (math.ceil(waves) + waves) / 2  # the last wave leaves some idle for a while
        made = waves * H100.multiprocessors * self.rows * self.cols * -(-depth // self.depth) * self.depth
        fetched = batch * depth * size * (rows * -(-cols // self.cols) + cols * -(-rows // self.rows))
        shared = made * words / (WARP * H100.multiprocessors * H100.clock)
        times = made * unit, shared, fetched / busy / H100.cache_bytes_per_second
        return 0.75 * max(times) + 0.25 * sum(times)


AnyTile = TypeVar("AnyTile", bound=BlockTile)


def count_blocks(tile: BlockTile, batch: int, rows: int, cols: int) -> int:
    """How many tiles cover so many results."""
    return batch * -(-rows // tile.rows) * -(-cols // tile.cols)


def choose_tile(shapes: Sequence[AnyTile], sizes: tuple[int, int, int], depth: int) -> AnyTile:
    """The shape that is expected to take the least time, of those that compute little more beyond the result than
    another one that keeps a GPU busy."""
    blocks = {shape: count_blocks(shape, *sizes) for shape in shapes}
    made = {shape: blocks[shape] * shape.rows * shape.cols for shape in shapes}
    least = min((made[shape] for shape in shapes if blocks[shape] >= BUSY_BLOCKS), default=math.inf)
    fitting = [shape for shape in shapes if made[shape] <= _MOST_IDLE * least]
    return min(fitting, key=lambda shape: shape.seconds(sizes, depth))


@dataclass(frozen=True)
class Source:
    """A tensor from which an operand takes vectors, where `condition` holds, if it is not the last of several.

    `base`: the offset of its first element along the direction in which it is contiguous.
    """

    buffer: Buffer
    base: Index
    condition: Compare | None = None


@dataclass(frozen=True)
class Operand:
    """One side of the product, and how the threads of a block bring a tile of it.

    Attributes:
        side: left or right.
        dtype: of its elements in shared memory.
        value: its element at (`axes`, `inner`).
        axis: the name of the flat position over `axes`, which has `count` points.
        along_depth: neighbouring threads walk along the inner axes.
        parts: the axes that stay the same within a slice, where `inner` is the walk within one; see `read_operands`.
        place: the channel of an element where the last slice of a tap may have more places than are left: (it, how many
            there are).
        sources: of its vectors, if it moves in such: one tensor, or several that were joined.
        reads: what is loaded in vectors where it is computed of such, element by element.
    """

    side: str
    dtype: str
    value: Scalar
    axes: tuple[Variable, ...]
    inner: tuple[Variable, ...]
    axis: str
    count: Expression
    parts: tuple[Variable, ...] = ()
    place_in_tap: tuple[Index, Index] | None = None

    @cached_property
    def along_depth(self) -> bool:
        """A short walk, such as along a row of a convolution's window, is not worth it. What is the same along one of
        both directions, as a scale is, does not count beside what is not."""
        sides = frozenset(self.axes), frozenset(self.inner)
        loads = [load for load in self.value.loads if all(load.variables & side for side in sides)] or self.value.loads
        return _walk(loads, self.inner) >= _LONG and _walk(loads, self.axes) < _LONG

    @cached_property
    def sources(self) -> Sequence[Source]:
        found: list[Source | None] = []
        value = plain(self.value)
        while isinstance(value, Choose) and isinstance(test := value.condition, Compare) and self._divides(test):
            found.append(self._source(plain(value.yes), test))
            value = plain(value.no)
        known = [one for one in (*found, self._source(value)) if one is not None]
        return known if len(known) > len(found) else []

    @cached_property
    def reads(self) -> Sequence["Operand"]:
        moving = frozenset(self.moving)
        loads = [load for load in self.value.loads if load.variables & moving]
        found = [replace(self, value=load) for load in loads]
        tests = (part for part in self.value.walk() if isinstance(part, Compare))
        whole = (product(axis.extent for axis in self.moving).constant or 1) % self._many == 0
        whole = whole and not any(load.buffer.role == "constant" for load in loads)
        is_made = whole and not self.sources and self.dtype in ("float32", "float16", "bfloat16")
        is_made = is_made and set(self.value.loads) <= set(always_loaded(self.value))  # others may be out of bounds
        return found if is_made and all(one.sources for one in found) and all(map(self._divides, tests)) else []

    def _divides(self, test: Compare) -> bool:
        """Whether all elements of a vector lie on one side of a position."""
        cut, moving = test.right - test.left, frozenset(self.moving)
        if not cut.variables & moving:
            return True
        place = cut + flat_position(self.moving)
        return test.relation == "<" and place.constant is not None and place.constant % self._many == 0

    def _source(self, load: Scalar, condition: Compare | None = None) -> Source | None:
        if not isinstance(load, Load) or load.buffer.dtype != self.dtype or load.children:
            return None
        rest = flatten(load.index, load.buffer.shape) - flat_position(self.moving)
        is_ragged = (product(v.extent for v in self.moving).constant or 0) % self._many != 0
        if is_ragged or rest.variables & frozenset(self.moving) or strides(rest, self._many) is None:
            return None
        return Source(load.buffer, rest, condition)

    @property
    def _many(self) -> int:
        return int(VECTORS[self.dtype]["count"])

    @property
    def base(self) -> Index | None:
        """That of its only source."""
        return self.sources[0].base if len(self.sources) == 1 else None

    @property
    def group(self) -> int:
        """How many elements a thread moves at once."""
        return self._many if self.sources or self.reads else 1

    @property
    def moving(self) -> tuple[Variable, ...]:
        """The axes along which neighbouring threads walk."""
        return self.inner if self.along_depth else self.axes

    @property
    def buffer(self) -> str:
        assert isinstance(self.value, Load)
        return self.value.buffer.name

    @property
    def line(self) -> str:
        """The variable that holds a thread's row or column of the tile."""
        return "left_row" if self.side == "left" else "right_col"

    @property
    def first(self) -> str:
        return "first_row" if self.side == "left" else "first_col"

    @property
    def along_sum(self) -> tuple[Variable, ...]:
        """All axes of the sum, slice by slice."""
        return (*self.parts, *self.inner)

    def extent(self, tile: BlockTile) -> int:
        return tile.rows if self.side == "left" else tile.cols

    def width(self, tile: BlockTile) -> int:
        """How many threads move one line of the tile."""
        return (tile.depth if self.along_depth else self.extent(tile)) // self.group

    def steps(self, tile: BlockTile) -> int:
        """Elements, or vectors, that each thread brings."""
        return self.extent(tile) * tile.depth // tile.threads // self.group

    def place(self, tile: BlockTile) -> tuple[Expression, Expression]:
        """Where in the tile a thread's element i is: (depth, row or column)."""
        lines, k, line = tile.threads // self.width(tile), Name(f"{self.side}_k"), Name(self.line)
        step = None if self.steps(tile) == 1 else Name("i") if lines == 1 else Name("i") * lines
        if lines == 1 and not self.along_depth:
            return step or code(0), line
        if step is None:
            return k, line
        return (k, line + step) if self.along_depth else (k + step, line)


def strides(offset: Index, many: int) -> list[Index] | None:
    """What must be a multiple of `many` for an offset to be one; None if it never is."""
    found: list[Index] = []
    for monomial, coefficient in offset.terms:
        sizes = [atom for atom in monomial if isinstance(atom, Size)]
        if coefficient % many == 0:
            continue
        if not sizes:
            return None
        found.append(product(of(size) for size in sizes) * coefficient)
    return [one for one in found if not any(other != one and divide(one, other)[1] == ZERO for other in found)]


def _walk(loads: Sequence[Load], axes: Sequence[Variable]) -> int:
    """How many neighbours along the axes are neighbours in memory, for some of the tensors."""
    longest = 1
    for load in loads:
        offset = flatten(load.index, load.buffer.shape)
        for first in range(len(axes)):
            own = axes[first:]
            if not (offset - flat_position(own)).variables & frozenset(own):
                longest = max(longest, product(v.extent for v in own).constant or _LONG)
    return longest


def flat_name(side: str, axes: tuple[Variable, ...]) -> str:
    """The name of the flat position over the axes of rows (left) or columns."""
    return axes[0].name if len(axes) == 1 else f"tile_{'row' if side == 'left' else 'col'}"


def own_names(kernel_axes: Sequence[Variable]) -> list[str]:
    """Names that `read_operand` and `write_slices` use."""
    moved = [f"{side}_{what}" for side in ("left", "right") for what in ("tile", "next", "k", "row", "col", "source")]
    moved += [f"loaded_{name}" for name in ("tile_row", "tile_col", *(v.name for v in kernel_axes))]
    plain = "tile_row tile_col first_row first_col k start next current fetch rest filled i j sums left right aligned"
    plain += " slice inner"
    return [*moved, *plain.split()]


def read_operands(block: Block, kernel: Kernel, dtype: str, depth: int = 0) -> list[Operand]:
    """Both sides. Where a thread brings the same row or column of every slice, its axes are known before the first.

    Convolutions that would work out channel and tap of each element go by slices of `depth` channels of one tap, if one
    is given, so that a place in the window is worked out once for each slice. Channels change last: what a slice has
    brought of neighbouring taps is still in the cache.
    """
    (stage,), (_, rows, cols) = kernel.reductions, parts_of(kernel)
    sides = [_read_operand(block, stage, side, axes, dtype) for side, axes in (("left", rows), ("right", cols))]
    channel, *taps = stage.axes
    if not depth or all(operand.group > 1 or operand.along_depth for operand in sides):
        return sides
    slices = divide(channel.extent + (depth - 1), as_index(depth))[0]
    part, inner = Variable(f"{channel.name}_part", slices), Variable("inner", as_index(depth))
    moved = {channel: of(part) * depth + of(inner)}
    is_whole = divide(channel.extent, as_index(depth))[1] == ZERO
    place = None if is_whole else (moved[channel], channel.extent)
    stage = replace(stage, axes=(inner,), loops=tuple(substitute(formula, moved) for formula in stage.loops))
    sides = [_read_operand(block, stage, side, axes, dtype) for side, axes in (("left", rows), ("right", cols))]
    return [replace(operand, parts=(part, *taps), place_in_tap=place) for operand in sides]


def goes_by_taps(channels: int, depth: int) -> bool:
    """Whether slices of so many channels of one tap leave few places empty."""
    return -(-channels // depth) * depth <= _MOST_IDLE * channels


def _read_operand(block: Block, stage: Reduce, side: str, axes: tuple[Variable, ...], dtype: str) -> Operand:
    assert stage.contraction is not None
    value = stage.contraction.left if side == "left" else stage.contraction.right
    name, count = flat_name(side, axes), count_of(block, axes)
    operand = Operand(side, dtype, value(stage.index, stage.loops), axes, stage.axes, name, count)
    if operand.along_depth:
        return operand
    loaded = {axis: Variable(f"loaded_{axis.name}", axis.extent) for axis in axes}
    index = tuple(substitute(formula, {axis: of(one) for axis, one in loaded.items()}) for formula in stage.index)
    value_loaded = value(index, stage.loops)
    return replace(operand, value=value_loaded, axes=tuple(loaded.values()), axis=f"loaded_{name}")


def write_places(block: Block, tile: BlockTile, operands: Sequence[Operand]) -> None:
    """Where in the tiles a thread's elements are."""
    for operand in operands:
        k, width, group = f"{operand.side}_k", operand.width(tile), operand.group
        if width == tile.threads and not operand.along_depth:
            block.declare(operand.line, THREAD_X * group if group > 1 else THREAD_X)
            continue
        inner, outer = (k, operand.line) if operand.along_depth else (operand.line, k)
        first = THREAD_X % width
        block.declare_all(**{inner: first * group if group > 1 else first, outer: THREAD_X / width})


def alignments(
    block: Block, operands: Sequence[Operand], *, host: bool = False, allocated: bool = False
) -> list[Expression]:
    """The conditions under which all rows of these operands start at multiples of 16 bytes and are that long; none if
    none moves in vectors. Memory that the host function has `allocated` starts there."""
    tests: dict[Expression, None] = {}
    parts = [part for operand in operands for part in operand.reads or (operand,)]
    moved = [(operand, source) for operand in parts for source in operand.sources]
    for operand, source in moved:
        for stride in [*(strides(source.base, operand.group) or []), *_lengths(operand)]:
            length = block.index(stride)
            tests[((length if stride.atom else Group(length)) % operand.group).equals(0)] = None
    for _, source in moved if not allocated else ():
        pointer = Name(source.buffer.name)
        start = apply("reinterpret_cast<size_t>", Method(pointer, "data_ptr") if host else pointer)
        tests[(start % 16).equals(0)] = None
    return list(tests)


def alignment(block: Block, operands: Sequence[Operand], *, host: bool = False) -> Expression | None:
    """All of these conditions as one."""
    tests = alignments(block, operands, host=host)
    return every(*tests) if tests else None


def _lengths(operand: Operand) -> list[Index]:
    """What must be a multiple of the vector's elements for a row of the operand to be one: both lengths, if it is the
    lesser of two, as a part of the depth is."""
    length = product(v.extent for v in operand.moving)
    atom = length.atom
    if not isinstance(atom, Operation) or atom.kind != "min":
        return [length] if length.constant is None else []
    return [one for side in (atom.left, atom.right) for one in strides(side, operand.group) or []]


def write_slices(
    block: Block,
    tile: BlockTile,
    operands: Sequence[Operand],
    depth: Expression,
    multiply: Callable[[], None],
    put_away: Callable[[Operand], None],
) -> None:
    """The loop over the slices: fetch the next, multiply the current one, put the next away."""
    for operand in operands:
        kind = VECTORS[operand.dtype]["V"] if operand.group > 1 else C_TYPES[operand.dtype]
        block.array(kind, f"{operand.side}_next", operand.steps(tile))
    start, following = Name("start"), Name("next") < depth
    with (
        _fixed_lines(block, operands),
        block.go("start", -tile.depth, start < depth, tile.depth, beside={"current": code(1)}),
    ):
        block.declare("next", start + tile.depth)
        with block.when(following):
            _fetch_slice(block, tile, operands, depth, lambda operand: Name(f"{operand.side}_next")["i"])
        with block.when(start >= 0):
            multiply()
        with block.when(following):
            for operand in operands:
                with block.unrolled("i", operand.steps(tile)):
                    put_away(operand)
        block.barrier("the next slice is complete, and nobody reads the last one any more")
        block.assign("current", 1, "^=")


def write_fetch(
    block: Block,
    tile: BlockTile,
    operands: Sequence[Operand],
    depth: Expression,
    target: Callable[[Operand, Expression], Expression],
) -> None:
    """The function that copies a slice of both operands into shared memory, asynchronously where they move in vectors,
    and its first calls: all slices but one that shared memory holds are on their way. `target` is the place of a
    thread's element i in a slice."""
    with _fixed_lines(block, operands), block.scope(_fetching):
        _fetch_slice(block, tile, operands, depth, lambda operand: target(operand, Name("filled")), copied=True)
        block.run("__pipeline_commit")
    block.blank()
    for ahead in range(STAGES - 1):
        block.run("fetch", ahead * tile.depth, ahead)


def _fetching(body: Body) -> Statement:
    parameters = (Parameter(INDEX, Name("next")), Parameter(INDEX, Name("filled")))
    return Lambda(Name("fetch"), parameters, body, "the slice at next; past the end zeros")


@contextmanager
def _fixed_lines(block: Block, operands: Sequence[Operand]) -> Iterator[None]:
    """Before the loop inside: the rows or columns that stay a thread's own in all slices."""
    fixed = [operand for operand in operands if not operand.along_depth]
    for operand in fixed:
        block.declare(operand.axis, Name(operand.first) + operand.line)
        block.name_flat(operand.axes, operand.axis)
    head = len(block.body)
    yield
    decode_used(block, head, *((operand.axis, operand.axes) for operand in fixed))


def _fetch_slice(
    block: Block,
    tile: BlockTile,
    operands: Sequence[Operand],
    depth: Expression,
    target: Callable[[Operand], Expression],
    *,
    copied: bool = False,
) -> None:
    """Bring a thread's elements of the next slice of both operands."""
    head, parts = len(block.body), operands[0].parts
    if parts:
        block.declare("slice", Name("next") / tile.depth)
        block.name_flat(parts, "slice")
        head = len(block.body)
    for operand in operands:
        _fetch(block, tile, operand, depth, target(operand), copied=copied)
    block.printer.rename = None
    decode_used(block, head, ("slice", parts))


def _fetch(
    block: Block, tile: BlockTile, operand: Operand, depth: Expression, target: Expression, *, copied: bool = False
) -> None:
    """Bring a thread's elements of the next slice to `target`; outside of the operand they are 0."""
    position = operand.inner[0].name if len(operand.inner) == 1 else "k"
    k, line = operand.place(tile)
    changing = [(position, operand.inner)]
    with block.unrolled("i", operand.steps(tile)):
        if operand.along_depth:
            block.declare(operand.axis, total([("+", Name(operand.first)), ("+", line)]))
            changing.insert(0, (operand.axis, operand.axes))
        if operand.parts:
            block.printer.rename = {position: k if isinstance(k, Name) else Group(k)}
        else:
            block.declare(position, total([("+", Name("next")), ("+", k)]))
        for name, axes in changing:
            block.name_flat(axes, name)
        if operand.reads:
            head = len(block.body)
            _compute_vector(block, tile, operand, position, depth, target)
            decode_used(block, head, *changing)
            return
        if operand.group > 1:
            head = len(block.body)
            vector = _vector(block, tile, operand, position, depth)
            if copied:
                block.variable(f"{C_TYPES[operand.dtype]}*", "to", Unary("&", target))
                block.run("copy_eight", "to", *vector)
            else:
                block.assign(target, apply(VECTORS[operand.dtype]["load"], *vector))
            decode_used(block, head, *changing)
            return
        block.assign(target, stored(number(0, "float32"), operand.dtype))
        tests = [Name(operand.axis) < operand.count]
        if copied or not operand.parts or operand.place_in_tap:  # otherwise the caller has asked
            place, end = _along_sum(block, operand, position, depth)
            tests.append(Binary(place, "<", end))
        with block.when(every(*tests)):
            head, value = len(block.body), operand.value
            if isinstance(value, Choose) and isinstance(value.no, Literal) and value.no.value == 0:
                with block.chosen(value) as inside:
                    block.assign(target, element_of(block, replace(operand, value=inside)))
            else:
                block.assign(target, element_of(block, operand))
            decode_used(block, head, *changing)


def _compute_vector(
    block: Block, tile: BlockTile, operand: Operand, position: str, depth: Expression, target: Expression
) -> None:
    """Load vectors of what an operand is computed of, and compute its elements one by one; no vector is cut off."""
    kind, count, name = C_TYPES[operand.dtype], operand.group, f"{operand.side}_part"
    block.array(kind, name, count, prefix="__align__(16) ", value=Braces())
    arrays: list[tuple[Scalar, str]] = []
    place, end = _along_sum(block, operand, position, depth)
    inside = Name(operand.axis) < operand.count, Binary(place, "<", end)
    with block.when(every(*inside)):
        for read in operand.reads:
            assert isinstance(read.value, Load)
            array = block.fresh(f"{read.value.buffer.name}_part")
            block.array(kind, array, count, prefix="__align__(16) ")
            at = Name(position) if operand.along_depth else Name(operand.axis)
            block.run(f"load_vector<{count}>", array, pointer_at(block, read, at, tile.depth), count, "aligned")
            arrays.append((read.value, array))
        with block.unrolled("j", count):
            for load, array in arrays:
                block.name(load, loaded(Name(array)["j"], operand.dtype))
            block.assign(Name(name)["j"], stored(block.value(operand.value), operand.dtype))
    vector = f"reinterpret_cast<{VECTORS[operand.dtype]['V']}*>"
    block.assign(Unary("*", apply(vector, Unary("&", target))), Unary("*", apply(vector, name)))


def _along_sum(block: Block, operand: Operand, position: str, depth: Expression) -> tuple[Expression, Expression]:
    """How far along the sum an element is, and where that ends: of channels, if a slice may end within one."""
    if operand.place_in_tap:
        place, end = map(block.index, operand.place_in_tap)
        return place, end
    return Name("next" if operand.parts else position), depth


def element_of(block: Block, operand: Operand) -> Expression:
    """One element; it is not converted if memory holds it in the tile's type."""
    value = operand.value
    if isinstance(value, Load) and not value.children and value.buffer.dtype == operand.dtype != "float32":
        return Name(value.buffer.name)[block.printer.offset(value.buffer, value.index)]
    return stored(block.value(value), operand.dtype)


def _vector(
    block: Block, tile: BlockTile, operand: Operand, position: str, depth: Expression
) -> tuple[Expression, ...]:
    """The arguments of a function that loads a vector: its place, how many elements of the row are left there, which is
    worked out first, and `aligned`."""
    axis, step = Name(operand.axis), Name(position)
    place, end = _along_sum(block, operand, position, depth)
    if operand.along_depth:
        rest = Choice(axis < operand.count, end - place, code(0))
    else:
        rest = Choice(place < end, operand.count - axis, code(0))
    block.declare("rest", rest)
    place = pointer_at(block, operand, step if operand.along_depth else axis, tile.depth)
    if len(operand.sources) > 1:
        block.variable(f"const {C_TYPES[operand.dtype]}*", f"{operand.side}_source", place)
        place = Name(f"{operand.side}_source")
    return place, Name("rest"), Name("aligned")


def pointer_at(block: Block, operand: Operand, at: Expression, depth: int = 0) -> Expression:
    """Where a vector of an operand begins: so far along the direction in which it is contiguous. A slice of `depth`
    steps that lies on one side of a seam is from one tensor."""
    places = [
        total([("+", Name(source.buffer.name)), *block.printer.terms(source.base), ("+", at)])
        for source in operand.sources
    ]
    place = places.pop()
    for source in reversed(operand.sources[:-1]):
        assert source.condition is not None
        test, seam = source.condition, source.condition.right.constant
        is_between = depth and seam and seam % depth == 0 and test.left.variable in operand.inner
        left = Name("next") if is_between else block.index(test.left)
        place = Choice(Binary(left, test.relation, block.index(test.right)), places.pop(), place)
    return place


def is_multiple(count: Expression, size: int) -> bool:
    """Whether a number is known to be one of `size`."""
    known = evaluate(count, {})
    return known is not None and known % size == 0


def load_functions(operands: Sequence[Operand], *, copied: bool = False) -> list[str]:
    """The source of the functions that load, or copy, vectors of these operands."""
    used = list(dict.fromkeys(operand.dtype for operand in operands if operand.sources))
    made = list(dict.fromkeys(operand.dtype for operand in operands if operand.reads))
    loads = [text for dtype in made for text in vector_functions(dtype, "load_vector")]
    loads += [text for dtype in used for text in vector_functions(dtype, VECTORS[dtype]["load"])]
    return loads + [text for dtype in used if copied for text in vector_functions(dtype, "copy_eight")]


def write_grid(block: Block, kernel: Kernel, tile: BlockTile, operands: Sequence[Operand], rows_first: bool) -> Body:
    """The launch of a block for each tile, with blocks of rows along x if they are first."""
    left, right = operands
    counts = covering(left.count, tile.rows), covering(right.count, tile.cols)
    blocks = grid(block, kernel, *counts, rows_first)
    return constant("threads", tile.threads), sides("blocks", *blocks)
