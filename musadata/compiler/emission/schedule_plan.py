"""Plans, and the table that says which schedule a kernel gets by its plan and its sizes.

`choose` gives the schedule, a value that `emit.emit` carries out. Of a kernel's family the first row of the table
counts whose condition holds; limits stand in the row that they decide, with the reason.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from musadata.compiler.emission import (
    attention,
    columns,
    few_rows,
    pointwise,
    register_tiled,
    rowwise,
    tensor_core_attention,
    tensor_core_tiled,
    tiled,
    vectorised,
)
from musadata.compiler.emission.held_rows import held_row, own_row
from musadata.compiler.emission.rowwise import WARP
from musadata.compiler.emission.tile_operands import BlockTile, choose_tile, count_blocks, goes_by_taps
from musadata.compiler.ir.code import Name
from musadata.compiler.ir.index_formulas import Variable, product
from musadata.compiler.ir.schedule import Bind, Carry, Combine, Schedule, Split, Stage, Step, Stride, Vectorise
from musadata.compiler.lowering.fusion import Kernel
from musadata.compiler.lowering.shared_axes import dealt

BUSY = 1 << 16  # outputs x team: with more, one thread per output fills a GPU, and teams of threads mostly wait
FULL = 1 << 22  # outputs: with more, a team only pays where what it adds up is too long for one thread
MANY_ROWS, MEDIUM_ROW = 8192, 1024  # with a warp for each row a large GPU is full; a block would mostly synchronise
ONLINE = 1024  # elements of a row: a shorter one is still in the cache when it is read again
SHORT_SUM = 256  # with more outputs than keep a GPU busy, a team still pays if what it adds up is longer
SERIAL_LIMIT = 2048  # a longer sum in one thread is slow, and less exact than PyTorch's
MOST_HELD, MOST_OF_SEVERAL = 32, 16  # elements of a row in a thread's registers
TWO_BLOCKS = 264  # two blocks for each multiprocessor of a large GPU


@dataclass(frozen=True)
class Plan:
    """How the kernels of a candidate are scheduled, and whether operators share them.

    Attributes:
        name: for people.
        elements: schedule of pointwise kernels: naive, stride, vector or rows.
        points: schedule of kernels with inner loops: thread, stride, warp, shared or shuffle.
        tile: for contractions, tiles in `shared` memory, with sums in `registers`, or `wide` ones, of float32 on tensor
            cores; "" for none, which is for small ones: large ones have tiles in shared memory.
        alike: layers share kernels, so that those of one structure get one schedule, and none is a template.
        held: rows are held in registers, by code that depends on their length.
        fast: products that fill a GPU with tiles of registers have them whatever `tile` says, since others would take
            several times as long. Without it a candidate is shorter.
        fused: operators share kernels. Without it each has one of its own, and results pass through memory.
        weighed: each kernel has the schedule, of those that all plans give it, that is expected to be the fastest.
    """

    name: str
    elements: str
    points: str
    tile: str
    alike: bool = False
    held: bool = True
    fast: bool = True
    fused: bool = True
    weighed: bool = False

    @property
    def in_registers(self) -> bool:
        """Whether the sums of large products stay in registers."""
        return self.tile in ("registers", "wide")

    @property
    def alone(self) -> bool:
        """Whether a point with inner loops is the work of one thread."""
        return self.points in ("thread", "stride")


PLANS = (
    Plan("block reductions in shared memory", "naive", "shared", "registers"),
    Plan("one thread per output", "rows", "thread", ""),
    Plan("warp shuffles", "stride", "warp", "shared"),
    Plan("vectorised", "vector", "shuffle", "wide"),
    Plan("grid-stride loops", "stride", "stride", ""),
    Plan("the fastest of these for each kernel", "vector", "shuffle", "wide", weighed=True),
)


def extent_hint(axes: Sequence[Variable], hints: Mapping[str, int]) -> int:
    """The number of points of some axes for the given sizes. Extents that depend on the position, as those of prefixes
    and adaptive windows do, are taken in the middle."""
    return product(axis.extent for axis in axes).evaluate(dict(hints))


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel whose schedule is to be chosen, for given sizes. Sizes are those of `like`, a kernel of the same
    structure whose schedule it shall have."""

    kernel: Kernel
    like: Kernel
    plan: Plan
    hints: Mapping[str, int]

    def extent(self, axes: Sequence[Variable]) -> int:
        return extent_hint(axes, self.hints)

    @cached_property
    def total(self) -> int:
        """How many points there are."""
        return self.extent(self.like.axes)

    @cached_property
    def inner(self) -> int:
        """How many steps the longest inner loop has."""
        return max(self.extent(stage.axes) for stage in self.like.stages)

    @cached_property
    def width(self) -> int:
        return self.extent(self.like.axes[-1:])

    @cached_property
    def sides(self) -> tuple[int, int, int]:
        """Of a product: how many there are, rows and columns."""
        batch, rows, cols = map(self.extent, tiled.parts_of(self.like))
        return batch, rows, cols

    @cached_property
    def channels(self) -> int:
        """How many of a tap a convolution adds up."""
        return self.extent(self.like.reductions[0].axes[:1])

    def steps_of(self, tile: BlockTile) -> Sequence[Step]:
        """Those of a product, whose slices have channels of one tap where few places stay empty then."""
        taps = self.like.reductions[0].axes[1:]
        return tile.steps(self.sides, bool(taps) and goes_by_taps(self.channels, tile.depth))

    @cached_property
    def dealt(self) -> "Case":
        """The same over groups of channels and phases, where a product splits axes in such a way."""
        return Case(dealt(self.kernel), dealt(self.like), self.plan, self.hints)

    @cached_property
    def can_share(self) -> bool:
        return rowwise.can_share(self.kernel)

    @cached_property
    def columns(self) -> bool:
        """Whether what neighbouring points reduce lies side by side in memory, and not what one point does."""
        return columns.are_columns(self.kernel)

    @cached_property
    def held(self) -> int:
        """How many rows could be held in registers; 0 if none can."""
        is_held = self.plan.held and not self.columns
        row = held_row(self.kernel, Name("lane"), WARP, 4) if is_held else None
        return 0 if row is None else len(row.held)

    @cached_property
    def group(self) -> int:
        """Neighbours that a thread moves at once in rows that it holds."""
        row = held_row(self.kernel, Name("lane"), WARP, 4)
        return 4 if row is None else row.group

    @cached_property
    def long(self) -> bool:
        """Whether a row is long enough for a warp; for a thread of its own, the addresses that a warp reads would lie
        far apart."""
        return self.inner > (64 if self.alone else WARP)

    @cached_property
    def team(self) -> str:
        """Who works on a point with inner loops, as far as the plan can be followed: thread, stride, warp, shared or
        shuffle."""
        team = self.plan.points
        if team in ("shared", "shuffle") and self.total >= MANY_ROWS and self.inner <= MEDIUM_ROW:
            team = "warp"
        if self.inner > SERIAL_LIMIT:  # too long for a thread, or for a warp
            team = {"thread": "shared", "stride": "shuffle"}.get(team, team) if self.can_share else team
            team = "shuffle" if team == "warp" else team
        if not self.can_share:
            team = {"warp": "stride", "shared": "thread", "shuffle": "thread"}.get(team, team)
        if self.columns and any(one.kind.startswith("arg") for one in self.kernel.reductions):
            team = {"shared": "thread", "shuffle": "stride", "warp": "stride"}.get(team, team)
        return team

    @cached_property
    def alone(self) -> bool:
        return self.team in ("thread", "stride")

    @cached_property
    def online(self) -> bool:
        return self.inner > ONLINE

    @property
    def strides(self) -> bool:
        """Whether the plan is for grids that go on to further elements."""
        return self.plan.elements in ("stride", "vector")


@dataclass(frozen=True)
class Row:
    """One row of the table: which schedule, where it is taken, and why there."""

    why: str
    holds: Callable[[Case], bool]
    steps: Callable[[Case], Sequence[Step] | None]


def choose(kernel: Kernel, plan: Plan, hints: Mapping[str, int], like: Kernel | None = None) -> Schedule:
    """The schedule of a kernel by the plan, or the nearest one that it allows: that which `like`, a kernel of the same
    structure, gets for its sizes, if it is given."""
    kernel, like = pointwise.spread(kernel), pointwise.spread(like or kernel)
    case = Case(kernel, like, plan, hints)
    for row in _TABLE[_family(kernel, plan)]:
        if row.holds(case) and (steps := row.steps(case)):
            return Schedule(tuple(steps), plan.alike)
    raise AssertionError(f"{kernel.name} has no schedule")


def _family(kernel: Kernel, plan: Plan) -> str:
    if kernel.scans:
        return "scans"
    if not kernel.reductions and all(not store.axes for store in kernel.stores):
        return "elements"
    if kernel.attends:
        return "attention"
    may_tile = plan.tile or plan.fast or not plan.alike  # tiles everywhere make some networks too long
    return "products" if may_tile and tiled.can_tile(kernel) else "reductions"


def plainly(kernel: Kernel) -> Schedule:
    """A thread for each point, whatever the sizes, for kernels that are compared."""
    if kernel.scans:
        steps: tuple[Step, ...] = (Bind("rows", "thread", WARP), Carry("inner", "elements"))
    elif not kernel.reductions and all(not store.axes for store in kernel.stores):
        steps = (Bind("elements", "thread", WARP),)
    else:
        steps = _by_threads(1)
    return Schedule(steps, alike=True)


# Pointwise kernels.


def _by_elements(case: Case) -> Sequence[Step]:
    bind = Bind("elements", "thread", pointwise.threads_for(case.total))
    return (bind, Stride("elements")) if case.strides else (bind,)


def _in_vectors(case: Case) -> Sequence[Step] | None:
    flat, rows = (vectorised.rows_of(case.kernel, axis) for axis in ("elements", "rows"))
    is_flat = flat is not None and not flat.far
    along_rows = rows is not None and rows.loads and not rows.far and case.extent(rows.axes) % rows.width == 0
    found, axis = (rows, "rows") if along_rows and not is_flat else (flat, "elements")
    if found is None or not (is_flat or along_rows or case.plan.weighed):
        return None
    steps = (
        Vectorise(axis, found.width),
        Bind("elements", "thread", pointwise.threads_for(-(-case.total // found.width))),
    )
    return (*steps, Stride("elements")) if case.plan.elements == "stride" else steps


def _turned(case: Case) -> Sequence[Step] | None:
    turned = pointwise.turned(case.kernel)
    if turned is None or min(case.extent((axis,)) for axis in turned.sides) < pointwise.TURNED:
        return None
    square = (Split("elements", pointwise.TURNED), Stage("elements", "shared"))
    return (*square, Stride("elements")) if case.strides else square


def _by_rows(case: Case) -> Sequence[Step] | None:
    if len(case.kernel.axes) < 2 or case.width > tiled.MOST_BLOCKS * WARP:
        return None
    return Bind("rows", "block"), Bind("columns", "thread", pointwise.threads_along(case.width))


_ELEMENTS = (
    Row(
        "what is read along another axis than it is written passes through squares of shared memory",
        lambda case: not case.plan.alike and case.total >= BUSY,
        _turned,
    ),
    Row(
        "neighbours are moved at once where the plan says so, and where there are elements enough to fill a GPU",
        lambda case: case.plan.elements == "vector" or (case.plan.fast and case.total >= BUSY and not case.plan.alike),
        _in_vectors,
    ),
    Row(
        "rows keep blocks busy, and the plan is for them or a thread for each element would divide to find its place",
        lambda case: (
            not case.plan.alike
            and case.width >= pointwise.LONG_ROW
            and (
                case.plan.elements == "rows"
                or (case.plan.elements == "naive" and case.plan.fast and pointwise.takes_apart(case.kernel))
            )
        ),
        _by_rows,
    ),
    Row("a thread for each element", lambda case: True, _by_elements),
)


# Reductions.


def _by_threads(points: int, *, stride: bool = False, online: bool = False) -> tuple[Step, ...]:
    bind = Bind("outputs", "thread", min(128, pointwise.threads_for(points)))
    combine = Combine("inner", "thread", online)
    return (bind, combine, Stride("outputs")) if stride else (bind, combine)


def _by_warps(points: int, *, online: bool = False, held: int = 0) -> tuple[Step, ...]:
    row = (Stage("inner", "registers", held),) if held else ()
    return (Bind("outputs", "warp", 4 if points >= 4 else 1), *row, Combine("inner", "shuffle", online))


def _by_blocks(threads: int, *, shuffle: bool, online: bool = False, held: int = 0) -> tuple[Step, ...]:
    row = (Stage("inner", "registers", held),) if held else ()
    by = "shuffle and tree" if shuffle else "tree"
    return Bind("outputs", "block", threads), *row, Combine("inner", by, online)


def _held(case: Case) -> Sequence[Step]:
    """Rows in registers: up to 32 elements of one in a thread, or 16 of each of several, in a warp for a short row, in
    a block for a long one. Rows that blocks of 1,024 threads cannot hold pass through them in pieces."""
    team = {"thread": "shared", "stride": "shuffle"}.get(case.team, case.team)
    most, inner = MOST_HELD if case.held == 1 else MOST_OF_SEVERAL, case.inner
    half = most // 2
    if inner <= WARP * (most if team == "warp" else half):
        return _by_warps(case.total, held=min(most, max(case.group, 1 << (-(-inner // WARP) - 1).bit_length())))
    fitting = next((t for t in (128, 256, 512, 1024) if inner <= t * half), 1024)
    fits = fitting * half < inner <= fitting * most and case.held <= 2  # a thread of 1,024 has 64 registers
    count = most if fits else half
    if inner > fitting * count and case.total >= TWO_BLOCKS:
        fitting = 512
    return _by_blocks(fitting, shuffle=team != "shared", online=inner > fitting * count, held=count)


def _members(case: Case) -> int:
    """Threads that share a column: more where columns are few and long."""
    blocks = -(-case.total // WARP)
    wanted = 32 if blocks < TWO_BLOCKS and case.inner >= MEDIUM_ROW else 8
    return min(wanted, max(2, 1 << (case.inner - 1).bit_length() - 1))


def _threads(inner: int, blocks: int) -> int:
    """Threads of a block that shares a row: more than usual where rows are long and blocks fewer than four for each
    multiprocessor of a large GPU."""
    return 1024 if blocks < 528 and inner >= 8192 else pointwise.threads_for(inner)


_REDUCTIONS = (
    Row(
        "a short row comes from memory once, and neighbouring lanes read neighbours",
        lambda case: bool(case.held) and case.long and case.alone and case.inner <= ONLINE,
        lambda case: _by_warps(case.total),
    ),
    Row("rows that reductions read again are held in registers", lambda case: bool(case.held) and case.long, _held),
    Row(
        "neighbouring lanes read neighbours",
        lambda case: (
            case.can_share
            and case.long
            and case.inner <= ONLINE
            and (case.alone or case.total >= MANY_ROWS)
            and not case.columns
            and columns.are_rows(case.kernel)
        ),
        lambda case: _by_warps(case.total),
    ),
    Row(
        "what a thread reads several times it holds in registers",
        lambda case: (
            case.plan.held
            and not case.plan.alike
            and case.total > BUSY
            and (case.columns or not case.long)
            and own_row(case.kernel) is not None
        ),
        lambda case: (
            Bind("outputs", "thread", min(128, pointwise.threads_for(case.total))),
            Stage("inner", "registers", case.inner),
            Combine("inner", "thread"),
        ),
    ),
    Row(
        "points alone fill a GPU, and what they add up is not too long for a thread",
        lambda case: (
            not case.alone
            and case.total * (WARP if case.team == "warp" else min(case.inner, SHORT_SUM)) > BUSY
            and case.inner <= (SERIAL_LIMIT if case.total > FULL else SHORT_SUM)
        ),
        lambda case: _by_threads(case.total, stride=case.team != "shared", online=case.online),
    ),
    Row(
        "columns lie side by side: neighbouring threads have neighbouring columns",
        lambda case: not case.alone and case.columns and case.total >= WARP,
        lambda case: (
            Bind("columns", "lane", WARP),
            Split("inner", _members(case)),
            Combine("inner", "beside", case.online),
        ),
    ),
    Row(
        "a warp for each point",
        lambda case: case.team == "warp",
        lambda case: _by_warps(case.total, online=case.online),
    ),
    Row(
        "a block for a handful of elements would be mostly idle",
        lambda case: not case.alone and case.inner <= 8 and case.total > 64,
        lambda case: _by_threads(case.total, stride=case.team == "shuffle"),
    ),
    Row(
        "a block for each point",
        lambda case: not case.alone,
        lambda case: _by_blocks(_threads(case.inner, case.total), shuffle=case.team == "shuffle", online=case.online),
    ),
    Row(
        "a thread for each point",
        lambda case: True,
        lambda case: _by_threads(case.total, stride=case.team == "stride", online=case.online),
    ),
)


# Running results along rows.


def _is_scanned_alone(case: Case) -> bool:
    """Short rows, and many of which the elements of a row lie far apart."""
    stage = case.like.scans[0]
    length = case.extent(stage.axes)
    serial = case.plan.alone and length <= SHORT_SUM
    apart = stage.index[-1].variable != stage.axes[0] and case.total >= MANY_ROWS and length <= SERIAL_LIMIT
    return length <= WARP or case.total > FULL or serial or apart


_SCANS = (
    Row(
        "a thread for each row",
        _is_scanned_alone,
        lambda case: (Bind("rows", "thread", min(128, pointwise.threads_for(case.total))), Carry("inner", "elements")),
    ),
    Row(
        "a block for each row",
        lambda case: True,
        lambda case: (
            Bind("rows", "block", _threads(case.extent(case.like.scans[0].axes), case.total)),
            Carry("inner", "pieces"),
        ),
    ),
)


# Products. Axes that a product splits are dealt out first.


def _of_product(steps: Callable[[Case, int, int], Sequence[Step] | None]) -> Callable[[Case], Sequence[Step] | None]:
    """Steps for tiles, unless there are more of them than a grid has blocks along y and z; they are given the lesser
    side and the depth."""

    def by_sides(case: Case) -> Sequence[Step] | None:
        case = case.dealt
        batch, rows, cols = case.sides
        side, depth = min(rows, cols), case.extent(case.like.reductions[0].axes)
        is_beyond = batch > tiled.MOST_BLOCKS or side > tiled.MOST_BLOCKS * tiled.SMALL_TILE
        return None if is_beyond else steps(case, side, depth)

    return by_sides


def _few_lines(case: Case, side: int, depth: int) -> Sequence[Step] | None:
    few = int(case.sides[2] < case.sides[1])  # which side has the lesser of them
    if not case.plan.in_registers or side > few_rows.MOST_ROWS or not few_rows.can_stream(case.kernel, few):
        return None
    return few_rows.steps_for(case.kernel, few, side)


def _on_tensor_cores(case: Case, side: int, depth: int) -> Sequence[Step] | None:
    if case.plan.alike or not tensor_core_tiled.half_type(case.kernel) or side < tensor_core_tiled.FEWEST:
        return None
    is_wide = case.plan.tile in ("wide", "shared")
    shapes = tensor_core_tiled.WIDE_SHAPES if is_wide else tensor_core_tiled.SHAPES
    tile = choose_tile(shapes, case.sides, depth)
    return case.steps_of(tile) if _may_use(case, count_blocks(tile, *case.sides)) else None


def _in_registers(case: Case, side: int, depth: int) -> Sequence[Step] | None:
    if case.kernel.reductions[0].dtype != "float32":
        return None
    is_wide = case.plan.tile in ("wide", "shared")
    busy = [one for one in register_tiled.CORE_SHAPES if count_blocks(one, *case.sides) >= tiled.BUSY_BLOCKS]
    shapes = (busy or register_tiled.CORE_SHAPES) if is_wide else register_tiled.SHAPES
    tile = choose_tile(register_tiled.FEW_SHAPES if side <= register_tiled.FEW else shapes, case.sides, depth)
    blocks = count_blocks(tile, *case.sides)
    if side < register_tiled.MEDIUM.rows and blocks < tiled.BUSY_BLOCKS:
        return None
    return case.steps_of(register_tiled.fitted(tile, case.kernel, case.channels)) if _may_use(case, blocks) else None


def _may_use(case: Case, blocks: int) -> bool:
    """Whether fast tiles are used: where the plan is for them, or where they fill a GPU, since others would take
    several times as long there."""
    return case.plan.in_registers or (case.plan.fast and blocks >= tiled.BUSY_BLOCKS)


def _in_shared_memory(case: Case, side: int, depth: int) -> Sequence[Step] | None:
    large = math.prod((*case.sides, depth)) >= 1 << 24  # without tiles, so many multiplications wait for memory
    if not case.plan.tile and side < (tiled.SMALL_TILE if large else register_tiled.MEDIUM.rows):
        return None
    return tiled.steps_for(*case.sides[1:])


def _from_lines(least: int, steps: Callable[[Case, int, int], Sequence[Step] | None]) -> Row:
    """Where most threads of a tile have a line of the lesser side."""
    return Row(
        f"from {least} lines on",
        lambda case: True,
        _of_product(lambda case, side, depth: steps(case, side, depth) if side >= least else None),
    )


_PRODUCTS = (
    Row("few rows or columns: the large operand is read once", lambda case: True, _of_product(_few_lines)),
    _from_lines(4, _on_tensor_cores),
    _from_lines(4, _in_registers),
    _from_lines(4, _in_shared_memory),
    *_REDUCTIONS,
)


# Attention.


def _attended_in_halves(case: Case) -> Sequence[Step] | None:
    depth = case.extent(case.like.reductions[0].axes[1:])
    if not tensor_core_attention.half_type(case.kernel) or depth > tensor_core_attention.DEEPEST:
        return None
    return tensor_core_attention.steps_for(*case.sides, depth)


_ATTENTION = (
    Row("half types have tensor cores", lambda case: True, _attended_in_halves),
    Row(
        "others go along the keys in tiles",
        lambda case: True,
        lambda case: attention.steps_for(
            case.sides, case.extent(case.like.reductions[0].axes[:1]), case.like.reductions[0].dtype
        ),
    ),
)

_TABLE: Mapping[str, Sequence[Row]] = {
    "elements": _ELEMENTS,
    "reductions": _REDUCTIONS,
    "scans": _SCANS,
    "products": _PRODUCTS,
    "attention": _ATTENTION,
}
