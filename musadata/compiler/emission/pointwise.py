"""Kernels without inner loops: every element on its own."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from musadata.compiler.emission.block import Block, decode
from musadata.compiler.emission.cpp import C_TYPES, VECTORS
from musadata.compiler.emission.launch import (
    EmittedKernel,
    bounded_blocks,
    constant,
    count_of,
    finish,
    linear_setup,
    sides,
)
from musadata.compiler.ir.code import (
    ATOM,
    BLOCK_DIM_X,
    BLOCK_X,
    BLOCK_Y,
    GRID_DIM_X,
    THREAD_X,
    THREAD_Y,
    Expression,
    Name,
    Unary,
    apply,
    bracketed,
    covering,
    every,
)
from musadata.compiler.ir.code import product as product_of
from musadata.compiler.ir.index_formulas import Index, Variable, of
from musadata.compiler.ir.scalar import Added, Buffer, Choose, Load, Local, Named, Scalar
from musadata.compiler.ir.schedule import Bind, Schedule
from musadata.compiler.lowering.fusion import Kernel, Store
from musadata.compiler.lowering.layout import flatten
from musadata.compiler.lowering.rewriting import rewrite

THREADS = 256
TURNED, _LINES = 32, 8  # rows and columns of a tile that turns, and rows of threads that move it
LONG_ROW = 128  # elements: such rows keep most threads of a block busy
_MOST_TILES = 2
_OF_SIDE = ("first_", "tiles_")
PLAIN = Schedule((Bind("elements", "thread", THREADS),))
LONGEST_STORE = 88  # value and position together; longer ones go on two lines


def threads_for(total: int) -> int:
    """Threads per block for a number of elements: whole warps, up to 256 threads."""
    return next((t for t in (32, 64, 128) if total <= t), THREADS)


def threads_along(width: int) -> int:
    """Threads of blocks that lie along a row: the most of up to 256, in whole warps, of which fewest are idle."""
    return min(range(THREADS, 64, -32), key=lambda threads: -(-width // threads) * threads)


def spread(kernel: Kernel) -> Kernel:
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


def emit_elements(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """One thread per element, or a bounded grid whose threads stride over the elements."""
    block, threads = _new_block(kernel, schedule), schedule.get(Bind).amount
    block.point_loop("i", schedule.strides, lambda: _element(kernel, block))
    setup = linear_setup(block, kernel.axes, threads, stride=schedule.strides)
    return finish(kernel, schedule, block, setup, threads=(threads,), counts=("total",))


def _new_block(kernel: Kernel, schedule: Schedule = PLAIN) -> Block:
    block = Block.of(kernel, schedule, ("i", "step", "total"))
    block.printer.flat = (kernel.axes, Name("i"))
    return block


def _element(kernel: Kernel, block: Block) -> None:
    """Everything that one thread does for the element at flat position i."""
    decode(block, "i", kernel.axes, decoded(kernel, block))
    for store in kernel.stores:
        write_store(block, store)


def takes_apart(kernel: Kernel) -> bool:
    """Whether a thread for each element must divide to find its place."""
    return bool(decoded(kernel, _new_block(kernel)))


def decoded(kernel: Kernel, block: Block) -> frozenset[Variable]:
    """Axes that need a variable of their own: those that occur in something else than a flat position."""
    if len(kernel.axes) == 1 and kernel.axes[0].name == "i":
        return frozenset()
    formulas: list[Index] = []
    for stage in kernel.stages:
        formulas += [axis.extent for axis in stage.axes]
        for node in stage.value.walk():
            if not (isinstance(node, Load) and block.printer.is_flat(node.buffer, node.index)):
                formulas += node.formulas
        if stage.buffer is not None and not block.printer.is_flat(stage.buffer, stage.index):
            formulas += stage.index
    return frozenset(kernel.axes) & frozenset[Variable]().union(*map(_own, formulas))


def write_store(block: Block, store: Store, element: Expression | None = None) -> None:
    """Store the element at the current point, or put it into `element`."""
    tensor = Name(store.buffer.name)
    if isinstance(store.value, Added):
        value: Expression = block.value(store.value.value)
        target: Expression = Unary("&", tensor[block.printer.offset(store.buffer, store.value.index)])
        if store.buffer.dtype == "int64":  # in two's complement the sum is the same
            kind = "unsigned long long"
            target, value = apply(f"reinterpret_cast<{kind}*>", target), apply(f"static_cast<{kind}>", value)
        block.run("atomicAdd", target, value)
        return
    value = block.held(store.value) if isinstance(store.value, Named) else block.value(store.value)
    place = block.printer.offset(store.buffer, store.index)
    if block.length(value) + block.length(place) > LONGEST_STORE:
        name = block.fresh("result")
        block.declare(name, value, C_TYPES[store.value.dtype])
        value = Name(name)
    block.assign(element or tensor[place], stored(value, store.buffer.dtype))


def stored(value: Expression, dtype: str) -> Expression:
    """The conversion from compute type to the buffer's type, where it is not implicit."""
    converted = VECTORS.get(dtype, {}).get("half")
    return apply(converted, value) if converted else value


def emit_rows(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """A two-dimensional grid whose blocks lie along rows: a block has one row, and takes apart where it is once.

    Rows go along the grid's x, since they may be many and only that axis has more than 65,535 blocks.
    """
    block = Block.of(kernel, schedule, ("rows", "outer"))
    *outer, last = kernel.axes
    along, width = schedule.get(Bind, "columns").amount, block.index(last.extent)
    row = Name(outer[0].name if len(outer) == 1 else "outer")
    block.declare(row.name, BLOCK_X)
    block.declare(last.name, BLOCK_Y * BLOCK_DIM_X + THREAD_X)
    block.leave(Name(last.name) >= width)
    block.printer.flat = (kernel.axes, row * width + last.name)
    if len(outer) > 1:
        decode(block, "outer", tuple(outer), decoded(kernel, block))
    for store in kernel.stores:
        write_store(block, store)
    blocks = sides("blocks", count_of(block, outer), (width + "threads" - 1) / "threads")
    return finish(kernel, schedule, block, (constant("threads", along), blocks), threads=(along,))


def _own(formula: Index) -> frozenset[Variable]:
    """The variables of a formula, those aside that only what it loads depends on."""
    return frozenset(atom for atom in formula.atoms() if isinstance(atom, Variable))


@dataclass(frozen=True)
class Turned:
    """Values of a pointwise kernel that are read along another axis than the result is written along.

    Attributes:
        along: the axis along which neighbours of the result are neighbours in memory.
        across: the axis along which those of what the values are read from are.
        values: what each thread puts into a tile of its block, for another one.
    """

    along: Variable
    across: Variable
    values: tuple[Scalar, ...]

    @property
    def sides(self) -> tuple[Variable, Variable]:
        return self.along, self.across


def turned(kernel: Kernel) -> Turned | None:
    """Which values of a kernel go through tiles, so that neighbouring threads both read and write neighbours; None if
    threads do so anyway, or if what is read is neither along one axis nor along the other."""
    if len(kernel.stages) != 1 or len(kernel.stores) != 1 or isinstance(kernel.stores[0].value, Added):
        return None
    (store,) = kernel.stores
    along = next((axis for axis in kernel.axes if _runs_along(store.buffer, store.index, axis)), None)
    if along is None:
        return None
    apart = [load for load in store.value.loads if along in load.variables and not _is_along(load, along)]
    sides = [next((axis for axis in kernel.axes if _is_along(load, axis)), None) for load in apart]
    if not sides or sides[0] is None or any(side != sides[0] for side in sides):
        return None
    values = _apart(store.value, along, apart)
    return Turned(along, sides[0], values) if values and len(values) <= _MOST_TILES else None


def _runs_along(buffer: Buffer, index: Sequence[Index], axis: Variable) -> bool:
    rest = flatten(index, buffer.shape) - of(axis)
    return axis not in rest.variables


def _is_along(load: Load, axis: Variable) -> bool:
    return not load.children and _runs_along(load.buffer, load.index, axis)


def _apart(value: Scalar, along: Variable, apart: Collection[Load]) -> tuple[Scalar, ...]:
    """The largest parts of a value that read from distant places alone; none if a condition decides about one."""
    mine = [load for load in value.loads if load in apart]
    if not mine:
        return ()
    if all(load in apart or along not in load.variables for load in value.loads):
        return (value,)
    if isinstance(value, (Choose, Load)):
        return ()
    parts = [(part, _apart(part, along, apart)) for part in value.operands]
    if any(not found and any(load in apart for load in part.loads) for part, found in parts):
        return ()
    return tuple(dict.fromkeys(one for _, found in parts for one in found))


def emit_turned(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """A block for each square of the two axes: it reads along one of them, and writes along the other."""
    found, stride = turned(kernel), schedule.strides
    assert found is not None
    (along, across), (store,) = found.sides, kernel.stores
    others = tuple(axis for axis in kernel.axes if axis not in found.sides)
    fixed = [
        "tile",
        "tiles",
        "place",
        "outer",
        "i",
        *(f"{what}{axis.name}" for axis in found.sides for what in _OF_SIDE),
    ]
    block = Block.of(kernel, schedule, fixed)
    names = [block.fresh(f"{value.buffer.name}_tile" if isinstance(value, Load) else "tile2") for value in found.values]
    if len(names) == 1:
        names = ["tile"]
    for name, value in zip(names, found.values, strict=True):
        note = "a row and a column reach different banks"
        block.shared(C_TYPES[value.dtype], name, TURNED, TURNED + 1, note=note)
    for axis in found.sides:
        block.declare(f"tiles_{axis.name}", covering(block.index(axis.extent), TURNED))

    def write_tile(place: Expression) -> None:
        block.declare(f"first_{along.name}", place % f"tiles_{along.name}" * TURNED)
        block.declare(f"first_{across.name}", place / f"tiles_{along.name}" % f"tiles_{across.name}" * TURNED)
        if others:
            outer = others[0].name if len(others) == 1 else "outer"
            block.declare(outer, place / (Name(f"tiles_{along.name}") * f"tiles_{across.name}"))
            if len(others) > 1:
                decode(block, "outer", others, frozenset(others))
        with _each_place(block, across, along):
            for name, value in zip(names, found.values, strict=True):
                block.assign(Name(name)["i"][THREAD_X], block.value(value))
        block.barrier()
        with _each_place(block, along, across):
            done = {
                value: Local(value.dtype, f"{name} element") for name, value in zip(names, found.values, strict=True)
            }
            block.printer.rename = {f"{name} element": Name(name)[THREAD_X]["i"] for name in names}
            write_store(block, replace(store, value=rewrite(store.value, lambda _: None, dict(done))))
            block.printer.rename = None

    if stride:
        with block.loop("place", BLOCK_X, "tiles", GRID_DIM_X):
            write_tile(Name("place"))
            block.barrier("before the next tile is read")
    else:
        write_tile(BLOCK_X)
    counts = [covering(block.index(axis.extent), TURNED) for axis in found.sides]
    counts += [count_of(block, others)] if others else []
    total = product_of(*(bracketed(count, ATOM) for count in counts))
    setup = (
        sides("threads", TURNED, _LINES),
        constant("tiles" if stride else "blocks", total),
        *(bounded_blocks("tiles", TURNED * _LINES) if stride else ()),
    )
    threads = (TURNED, _LINES)
    return finish(kernel, schedule, block, setup, threads=threads, counts=("tiles",) if stride else ())


@contextmanager
def _each_place(block: Block, inner: Variable, outer: Variable) -> Iterator[None]:
    """A block's walk over its tile, with neighbouring threads along `inner`."""
    with block.loop("i", THREAD_Y, TURNED, _LINES):
        block.declare(inner.name, Name(f"first_{inner.name}") + THREAD_X)
        block.declare(outer.name, Name(f"first_{outer.name}") + "i")
        inside = [Name(axis.name) < block.index(axis.extent) for axis in (inner, outer)]
        with block.when(every(*inside)):
            yield
