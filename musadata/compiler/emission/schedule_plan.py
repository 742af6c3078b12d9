"""Plans, and the schedule that each kernel of a candidate gets by its plan."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from musadata.compiler.emission import (
    attention,
    columns,
    few_rows,
    pointwise,
    register_tiled,
    rowwise,
    scan,
    tensor_core_attention,
    tensor_core_tiled,
    tiled,
)
from musadata.compiler.emission.held_rows import held_row
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.emission.shared_kernels import structure
from musadata.compiler.emission.statements import is_shared, written_alike
from musadata.compiler.emission.tile_operands import Tile, choose_tile, count_blocks
from musadata.compiler.ir.index_formulas import Variable, product
from musadata.compiler.lowering.fusion import Kernel
from musadata.compiler.lowering.shared_axes import dealt

BUSY = 1 << 16  # outputs x team: with more, one thread per output fills a GPU, and teams of threads mostly wait
FULL = 1 << 22  # outputs: with more, a team only pays where what it adds up is too long for one thread
MANY_ROWS = 1 << 14  # threads that go along rows side by side keep a GPU busy
SHORT_SUM = 256  # ... unless what a team adds up is long
MOST_BLOCKS = 65_535  # of a grid along y and z
FEW_BLOCKS, LONG_ROW = 528, 8192  # four blocks for each multiprocessor of a large GPU; elements of a row
MANY_ROWS, MEDIUM_ROW = 8192, 1024  # with a warp for each row a large GPU is full; a block would mostly synchronise
ONLINE = 1024  # elements of a row: a shorter one is still in the cache when it is read again
SHORT_ROW = 64  # elements; with a longer one for each thread, the addresses that a warp reads lie far apart
MOST_HELD = 32  # elements of a row in a thread's registers
TWO_BLOCKS = 264  # two blocks for each multiprocessor of a large GPU
LARGE_PRODUCT = 1 << 24  # multiplications: without tiles, they wait for memory
FEW_LINES = 4  # rows or columns of a product that tiles are for
SERIAL_LIMIT = 2048  # a longer sum in one thread is slow, and less exact than PyTorch's


@dataclass(frozen=True)
class Plan:
    """How the kernels of a candidate are scheduled. Which kernels there are does not depend on it.

    Attributes:
        name: for people.
        elements: schedule of pointwise kernels: naive, stride, vector or rows.
        points: schedule of kernels with inner loops: thread, stride, warp, shared or shuffle.
        tile: for contractions, tiles in `shared` memory, with sums in `registers`, or `wide` ones with more of them; ""
            for none, which is for small ones: large ones have tiles in shared memory.
        templates: kernels may be templates, which those that share their code cannot be.
        held: rows are held in registers, by code that depends on their length.
        fast: products that fill a GPU with tiles of registers have them whatever `tile` says, since others would take
            several times as long. Without it a candidate is shorter.
    """

    name: str
    elements: str
    points: str
    tile: str
    templates: bool = True
    held: bool = True
    fast: bool = True

    @property
    def in_registers(self) -> bool:
        """Whether the sums of large products stay in registers."""
        return self.tile in ("registers", "wide")


PLANS = (
    Plan("block reductions in shared memory", "naive", "shared", "registers"),
    Plan("one thread per output", "rows", "thread", ""),
    Plan("warp shuffles", "stride", "warp", "shared"),
    Plan("vectorised", "vector", "shuffle", "wide"),
    Plan("grid-stride loops", "stride", "stride", ""),
)


def extent_hint(axes: Sequence[Variable], hints: dict[str, int]) -> int:
    """The number of points of some axes for the given sizes. Extents that depend on the position, as those of prefixes
    and adaptive windows do, are taken in the middle."""
    return product(axis.extent for axis in axes).evaluate(hints)


def schedule(kernel: Kernel, plan: Plan, hints: dict[str, int], like: Kernel | None = None) -> EmittedKernel:
    """Emit a kernel by the plan, or by the nearest schedule that it allows: the one that `like`, a kernel of the same
    structure, gets for its sizes, if it is given."""
    kernel, like = _spread(kernel), _spread(like or kernel)
    total = extent_hint(like.axes, hints)
    if kernel.scans:
        return _scan(kernel, like, plan, total, hints)
    if not kernel.reductions and all(not store.axes for store in kernel.stores):
        return _elements(kernel, like, plan, total, hints)
    if kernel.attends:
        return _attention(kernel, like, hints)
    may_tile = plan.tile or plan.fast or not is_shared()  # tiles everywhere make some networks too long to be read
    if may_tile and tiled.can_tile(kernel) and (tiles := _tile(kernel, like, plan, hints)):
        return tiles
    return _points(kernel, like, plan, total, hints)


def schedule_alike(
    kernels: Sequence[Kernel], plan: Plan, hints: dict[str, int], *, held: bool = True
) -> tuple[EmittedKernel, ...]:
    """Emit kernels so that those of one structure get the same schedule, that of the largest, and can share code. What
    is not `held` in registers shares more of it."""
    plan = replace(plan, templates=False, held=held)
    groups: dict[tuple[str, ...], list[Kernel]] = {}
    with written_alike(kernels[0].size_names if kernels else ()):
        for kernel in kernels:
            plain = schedule(kernel, plan, hints) if kernel.attends else _plainly(_spread(kernel))
            groups.setdefault(structure(plain), []).append(kernel)
        largest = {
            id(one): max(group, key=lambda k: _points_of(k, hints)) for group in groups.values() for one in group
        }
        return tuple(schedule(kernel, plan, hints, largest[id(kernel)]) for kernel in kernels)


def _plainly(kernel: Kernel) -> EmittedKernel:
    """With a thread for each point, whatever the sizes."""
    if kernel.scans:
        return scan.emit_serial_scan(kernel, 1)
    if not kernel.reductions and all(not store.axes for store in kernel.stores):
        return pointwise.emit_elements(kernel, 1)
    return rowwise.emit_thread(kernel, 1)


def _points_of(kernel: Kernel, hints: dict[str, int]) -> int:
    """All points of a kernel, inner ones included."""
    return extent_hint(kernel.axes, hints) * max(extent_hint(stage.axes, hints) for stage in kernel.stages)


def _spread(kernel: Kernel) -> Kernel:
    """A kernel that only stores, over axes beside its own: all become its own, in the order in which they are stored,
    so that neighbouring threads store side by side."""
    if len(kernel.stages) != 1 or not kernel.stores or not kernel.stores[0].axes:
        return kernel
    (store,) = kernel.stores
    axes = [index.variable for index in store.index]
    if sorted(map(id, axes)) != sorted(map(id, (*kernel.axes, *store.axes))):
        return kernel
    ordered = tuple(axis for axis in axes if axis is not None)
    return replace(kernel, axes=ordered, stages=(replace(store, axes=()),))


def _elements(kernel: Kernel, like: Kernel, plan: Plan, total: int, hints: dict[str, int]) -> EmittedKernel:
    in_fours = plan.elements == "vector" or (plan.fast and total >= BUSY and not is_shared())
    if in_fours and pointwise.can_vectorise(kernel):
        return pointwise.emit_vectorised(kernel, total, stride=plan.elements == "stride")
    turned = None if is_shared() or total < BUSY else pointwise.turned(kernel)
    if turned and min(extent_hint((axis,), hints) for axis in turned.sides) >= pointwise.TURNED:
        return pointwise.emit_turned(kernel, turned, stride=plan.elements in ("stride", "vector"))
    width = extent_hint(like.axes[-1:], hints)
    by_rows = plan.elements == "rows" and width >= rowwise.WARP
    if plan.elements == "naive" and plan.fast and not is_shared() and width >= pointwise.LONG_ROW:
        by_rows = pointwise.takes_apart(kernel)
    if by_rows and len(kernel.axes) >= 2 and width <= MOST_BLOCKS * rowwise.WARP:
        return pointwise.emit_rows(kernel, 0 if is_shared() else width)
    return pointwise.emit_elements(kernel, total, stride=plan.elements in ("stride", "vector"))


def _tile(kernel: Kernel, like: Kernel, plan: Plan, hints: dict[str, int]) -> EmittedKernel | None:
    """Tiles, unless there are more of them than a grid has blocks along y and z."""
    kernel, like = dealt(kernel), dealt(like)
    stage, parts = like.reductions[0], tiled.partition(like)
    assert parts is not None
    batch, rows, cols = (extent_hint(part, hints) for part in parts)
    side, depth = min(rows, cols), extent_hint(stage.axes, hints)
    work = batch * rows * cols * depth
    if batch > MOST_BLOCKS or side > MOST_BLOCKS * tiled.SMALL_TILE:
        return None
    few = int(cols < rows)  # which side has the lesser of them
    if plan.in_registers and side <= few_rows.MOST_ROWS and few_rows.can_stream(kernel, few):
        return few_rows.emit_few_rows(kernel, few, side)
    if side < FEW_LINES:
        return None  # most threads of a tile would have no line
    if fast := _fast_tiles(kernel, plan, (batch, rows, cols)):
        return fast
    if not plan.tile and side < (register_tiled.MEDIUM.rows if work < LARGE_PRODUCT else tiled.SMALL_TILE):
        return None
    return tiled.emit_tiled(kernel, rows, cols)


def _fast_tiles(kernel: Kernel, plan: Plan, sizes: tuple[int, int, int]) -> EmittedKernel | None:
    """Tiles of registers, or for tensor cores, where the plan is for them or where they fill a GPU: there others take
    several times as long. `sizes` are how many products, rows and columns there are."""
    batch, rows, cols = sizes
    wide = plan.tile in ("wide", "shared")

    def may_use(tile: Tile) -> bool:
        fills = count_blocks(tile, batch, rows, cols) >= tiled.BUSY_BLOCKS
        return plan.in_registers or (plan.fast and fills)

    if plan.templates and tensor_core_tiled.half_type(kernel) and min(rows, cols) >= tensor_core_tiled.SMALLEST.rows:
        fragments = choose_tile(tensor_core_tiled.WIDE_SHAPES if wide else tensor_core_tiled.SHAPES, batch, rows, cols)
        if may_use(fragments):
            return tensor_core_tiled.emit_tensor_core_tiled(kernel, fragments, sizes)
    tile = register_tiled.narrow_tile(batch, rows, cols, wide=wide)
    if tile is None and min(rows, cols) >= register_tiled.MEDIUM.rows:
        shapes = register_tiled.WIDE_SHAPES if wide else register_tiled.SHAPES
        tile = choose_tile(shapes, batch, rows, cols)
    if tile is None or kernel.reductions[0].dtype != "float32" or not may_use(tile):
        return None
    return register_tiled.emit_register_tiled(kernel, tile, sizes)


def _attention(kernel: Kernel, like: Kernel, hints: dict[str, int]) -> EmittedKernel:
    stage, parts = like.reductions[0], tiled.partition(like)
    assert parts is not None
    batch, rows, cols = (extent_hint(part, hints) for part in parts)
    keys, depth = (extent_hint((axis,), hints) for axis in stage.axes)
    if tensor_core_attention.half_type(kernel) and depth <= tensor_core_attention.DEEPEST:
        tile = tensor_core_attention.tile_for(batch, rows, cols, depth)
        return tensor_core_attention.emit_tensor_core_attention(kernel, tile, depth)
    tile = attention.tile_for(batch, rows, keys, cols, stage.dtype)
    return attention.emit_attention(kernel, tile)


def _scan(kernel: Kernel, like: Kernel, plan: Plan, rows: int, hints: dict[str, int]) -> EmittedKernel:
    """Threads of their own for short rows, and for many of which the elements of a row are far apart."""
    stage = like.scans[0]
    length = extent_hint(stage.axes, hints)
    serial = plan.points in ("thread", "stride") and length <= SHORT_SUM
    apart = stage.index[-1].variable != stage.axes[0] and rows >= MANY_ROWS and length <= SERIAL_LIMIT
    if length <= rowwise.WARP or rows > FULL or serial or apart:
        return scan.emit_serial_scan(kernel, rows)
    return scan.emit_block_scan(kernel, _threads(length, rows))


def _points(kernel: Kernel, like: Kernel, plan: Plan, total: int, hints: dict[str, int]) -> EmittedKernel:
    inner = max(extent_hint(stage.axes, hints) for stage in like.stages)
    points, shared = plan.points, rowwise.can_share(kernel)
    if points in ("shared", "shuffle") and total >= MANY_ROWS and inner <= MEDIUM_ROW:
        points = "warp"
    if points in ("thread", "stride") and inner > SERIAL_LIMIT and shared:
        points = "shared" if points == "thread" else "shuffle"
    if points == "warp" and inner > SERIAL_LIMIT:
        points = "shuffle"
    if not shared and points not in ("thread", "stride"):
        points = "stride" if points == "warp" else "thread"
    lie_apart = columns.are_columns(kernel)
    if lie_apart and points not in ("thread", "stride") and any(r.kind.startswith("arg") for r in kernel.reductions):
        points = "thread" if points == "shared" else "stride"
    row = None if lie_apart or not plan.held else held_row(kernel, "lane", rowwise.WARP, 4)
    is_long = inner > (SHORT_ROW if points in ("thread", "stride") else rowwise.WARP)
    if row is not None and is_long:
        if points in ("thread", "stride") and inner <= ONLINE:
            return rowwise.emit_warp(kernel, total, online=False)
        points = {"thread": "shared", "stride": "shuffle"}.get(points, points)
        return _held(kernel, len(row.held), points, total, inner)
    suits_warps = inner <= ONLINE and (points in ("thread", "stride") or total >= MANY_ROWS)
    if shared and is_long and suits_warps and not lie_apart and columns.are_rows(kernel):
        return rowwise.emit_warp(kernel, total, online=False)  # neighbouring lanes read neighbours
    team = rowwise.WARP if points == "warp" else min(inner, SHORT_SUM)
    longest = SERIAL_LIMIT if total > FULL else SHORT_SUM
    if points not in ("thread", "stride") and total * team > BUSY and inner <= longest:
        points = "thread" if points == "shared" else "stride"
    online = inner > ONLINE
    if points in ("warp", "shared", "shuffle") and total >= rowwise.WARP and lie_apart:
        return columns.emit_columns(kernel, _members(inner, total), online=online)
    if points == "warp":
        return rowwise.emit_warp(kernel, total, online=online)
    if points in ("shared", "shuffle"):
        if inner <= 8 and total > 64:  # a block for a handful of elements would be mostly idle
            return rowwise.emit_thread(kernel, total, stride=points == "shuffle")
        return rowwise.emit_block(kernel, _threads(inner, total), shuffle=points == "shuffle", online=online)
    return rowwise.emit_thread(kernel, total, stride=points == "stride", online=online)


def _held(kernel: Kernel, rows: int, points: str, total: int, inner: int) -> EmittedKernel:
    """Rows in registers: up to 32 elements of all `rows` in a thread, a warp for a short row, a block for a long one.
    Rows that blocks of 1,024 threads cannot hold pass through them in pieces."""
    most = MOST_HELD // rows
    if inner <= most * rowwise.WARP // (1 if points == "warp" else 2):
        count = min(most, max(4, 1 << (-(-inner // rowwise.WARP) - 1).bit_length()))
        return rowwise.emit_warp(kernel, total, online=False, held=count)
    fitting = next((t for t in (128, 256, 512, 1024) if inner <= t * most // 2), 1024)
    count = most if fitting * most // 2 < inner <= fitting * most else most // 2
    if inner > fitting * count and total >= TWO_BLOCKS:
        fitting = 512
    online = inner > fitting * count
    return rowwise.emit_block(kernel, fitting, shuffle=points != "shared", online=online, held=count)


def _members(inner: int, total: int) -> int:
    """Threads that share a column: more where columns are few and long."""
    blocks = -(-total // rowwise.WARP)
    wanted = 32 if blocks < TWO_BLOCKS and inner >= MEDIUM_ROW else 8
    return min(wanted, max(2, 1 << (inner - 1).bit_length() - 1))


def _threads(inner: int, blocks: int) -> int:
    """Threads of a block that shares a row: more than usual where rows are long and blocks few."""
    if blocks < FEW_BLOCKS and inner >= LONG_ROW:
        return 1024
    return pointwise.threads_for(inner)
