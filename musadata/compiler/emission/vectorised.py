"""Pointwise kernels whose threads move neighbours along a row at once: vectors of 16 bytes, or some of them.

A row is all that the kernel's tensors walk through side by side: the whole result, where every one of them is read at
the element's own place, or its last axes, where some are slices, rows of a table, or repeated from row to row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from musadata.compiler.emission.block import Block, decode_used
from musadata.compiler.emission.cpp import C_TYPES, loaded, total, vector_functions
from musadata.compiler.emission.held_rows import always_loaded
from musadata.compiler.emission.launch import EmittedKernel, bounded_blocks, constant, count_of, finish
from musadata.compiler.emission.pointwise import write_store
from musadata.compiler.emission.tile_operands import strides
from musadata.compiler.ir.code import (
    UNARY,
    Constant,
    Declare,
    Expression,
    Name,
    apply,
    bracketed,
    covering,
    every,
    names_of,
)
from musadata.compiler.ir.index_formulas import Index, Variable, product
from musadata.compiler.ir.scalar import Added, Buffer, Load
from musadata.compiler.ir.schedule import Bind, Schedule, Vectorise
from musadata.compiler.lowering.fusion import Kernel, Store
from musadata.compiler.lowering.layout import flat_position, flatten
from musadata.tracing.roofline import itemsize

_OWN = ("vector", "parts", "first", "left", "aligned", "outer", "i", "j", "step", "total")


@dataclass(frozen=True)
class Rows:
    """Rows that vectors lie along.

    Attributes:
        axes: of a row.
        outer: of the rows; none where the whole result is one.
        loads: what moves in vectors, by where its rows start in memory; loads of one place are one.
        stores: where the rows of each result start.
        width: elements of a vector: 16 bytes of the narrowest type, 4 or 8.
        far: how many loads go along a row but are not side by side there; others are, though not aligned or not read
            everywhere.
    """

    axes: tuple[Variable, ...]
    outer: tuple[Variable, ...]
    loads: dict[tuple[Buffer, Index], tuple[Load, ...]]
    stores: dict[Store, Index]
    width: int
    far: int


def rows_of(kernel: Kernel, axis: str) -> Rows | None:
    """Along `elements` the whole result as one row; along `rows` the longest of those with the most loads that move in
    vectors. None where results are not stored side by side, or never aligned."""
    simple = all(isinstance(s, Store) and not s.axes and not isinstance(s.value, Added) for s in kernel.stages)
    sizes = [itemsize(buffer.dtype) for buffer in (*kernel.inputs, *kernel.outputs) if buffer.dtype != "bool"]
    if not simple or not sizes:
        return None
    width, starts = 8 if min(sizes) == 2 else 4, range(1, len(kernel.axes)) if axis == "rows" else range(1)
    some = [_rows(kernel, kernel.axes[start:], kernel.axes[:start], width) for start in starts]
    return max(filter(None, some), key=lambda rows: (-rows.far, len(rows.loads)), default=None)


def _rows(kernel: Kernel, axes: tuple[Variable, ...], outer: tuple[Variable, ...], width: int) -> Rows | None:
    if outer and (product(axis.extent for axis in axes).constant or 0) % width:
        return None
    stores = {store: _base(store.buffer, store.index, axes, width) for store in kernel.stores}
    loads: dict[tuple[Buffer, Index], tuple[Load, ...]] = {}
    far = 0
    for store in kernel.stores:
        always = {id(load) for load in always_loaded(store.value)}
        for load in store.value.loads:
            if load.buffer.role == "constant" or not load.variables & frozenset(axes):
                continue
            base = _base(load.buffer, load.index, axes, width)
            if base is not None and id(load) in always:
                loads[load.buffer, base] = (*loads.get((load.buffer, base), ()), load)
            else:
                far += bool((flatten(load.index, load.buffer.shape) - flat_position(axes)).variables & frozenset(axes))
    bases = {store: base for store, base in stores.items() if base is not None}
    return Rows(axes, outer, loads, bases, width, far) if len(bases) == len(stores) else None


def _base(buffer: Buffer, index: Sequence[Index], axes: tuple[Variable, ...], width: int) -> Index | None:
    """Where a row starts, if neighbours along the axes are neighbours in memory, and vectors can be aligned."""
    rest = flatten(index, buffer.shape) - flat_position(axes)
    return None if rest.variables & frozenset(axes) or strides(rest, width) is None else rest


def emit_vectorised(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """A vector for each thread, or as many as a grid that strides comes to; the end of a row element by element."""
    vectors, threads = schedule.get(Vectorise), schedule.get(Bind).amount
    rows = rows_of(kernel, vectors.axis)
    assert rows is not None and rows.width == vectors.amount
    block = Block.of(kernel, schedule, _OWN)
    writer = _Vectors(kernel, rows, block)
    if schedule.strides:
        block.declare("aligned", writer.alignment(), "bool")
    block.point_loop("vector", schedule.strides, lambda: writer.write(aligned=schedule.strides))
    count = covering(count_of(block, rows.axes), rows.width)
    all_vectors = bracketed(count, UNARY) * count_of(block, rows.outer) if rows.outer else count
    wanted = (Name("total") + "threads" - 1) / "threads"
    setup = (
        constant("total", all_vectors),
        constant("threads", threads),
        *(bounded_blocks(wanted, threads) if schedule.strides else (constant("blocks", wanted),)),
    )
    functions = vector_functions("float32", *writer.used)
    return finish(kernel, schedule, block, setup, threads=(threads,), counts=("total",), helpers=functions)


@dataclass(frozen=True)
class _Vectors:
    """What a thread does, under construction."""

    kernel: Kernel
    rows: Rows
    block: Block

    @property
    def used(self) -> list[str]:
        return [*(["load_vector"] if self.rows.loads else []), "store_vector"]

    def alignment(self) -> Expression:
        """The condition under which vectors that are complete start at multiples of their size."""
        starts = [*self.rows.loads, *((store.buffer, base) for store, base in self.rows.stores.items())]
        tests: dict[Expression, None] = {}
        lengths = [product(axis.extent for axis in self.rows.axes)] if self.rows.outer else []
        for stride in [one for formula in [*(base for _, base in starts), *lengths] for one in self._strides(formula)]:
            tests[(bracketed(self.block.index(stride), UNARY) % self.rows.width).equals(0)] = None
        given = dict.fromkeys(buffer.name for buffer, _ in starts if buffer.role != "temporary")
        for name in given:  # a slice may start anywhere
            tests[(apply("reinterpret_cast<size_t>", name) % 16).equals(0)] = None
        return every(*tests) if tests else Constant("true")

    def _strides(self, formula: Index) -> list[Index]:
        """What must be a multiple of a vector's elements for a formula to be one."""
        found = strides(formula, self.rows.width)
        return [formula] if found is None else found

    def write(self, *, aligned: bool) -> None:
        """Load vectors, compute each element, and store vectors."""
        block, rows, length = self.block, self.rows, count_of(self.block, self.rows.axes)
        vector, row = Name("vector"), rows.outer[0].name if len(rows.outer) == 1 else "outer"
        if rows.outer:
            block.declare("parts", covering(length, rows.width))
            block.declare(row, vector / "parts")
            block.declare("first", vector % "parts" * self.rows.width)
        else:
            block.declare("first", vector * self.rows.width)
        block.declare("left", length - "first")
        if not aligned:
            block.declare("aligned", self.alignment(), "bool")
        outer, place = frozenset(rows.outer), len(block.body)
        for store in self.kernel.stores:
            block.hoist(store.value, outer, frozenset())
        names = self._load()
        results = {}
        for store in self.kernel.stores:
            results[store] = block.fresh(f"{store.buffer.name}_part")
            block.array(C_TYPES[store.buffer.dtype], results[store], self.rows.width, prefix="__align__(16) ")
        with block.unrolled("j", self.rows.width), block.when(Name("j") < "left"):
            self._write_element(names, {store: Name(name)["j"] for store, name in results.items()})
        for store, name in results.items():
            start = self._pointer(store.buffer, rows.stores[store])
            block.run(f"store_vector<{rows.width}>", start, name, "left", "aligned")
        decode_used(block, place, (row, rows.outer))

    def _load(self) -> dict[Load, Expression]:
        found: dict[Load, Expression] = {}
        for (buffer, base), loads in self.rows.loads.items():
            name = self.block.fresh(f"{buffer.name}_part")
            self.block.array(C_TYPES[buffer.dtype], name, self.rows.width, prefix="__align__(16) ")
            self.block.run(f"load_vector<{self.rows.width}>", name, self._pointer(buffer, base), "left", "aligned")
            found |= dict.fromkeys(loads, loaded(Name(name)["j"], buffer.dtype))
        return found

    def _write_element(self, names: dict[Load, Expression], targets: dict[Store, Expression]) -> None:
        block, axes = self.block, self.rows.axes
        place = axes[0].name if len(axes) == 1 else "i"
        head = len(block.body)
        for load, name in names.items():
            block.name(load, name)
        block.name_flat(axes, place)
        for store, target in targets.items():
            write_store(block, store, target)
        decode_used(block, head, (place, axes))
        if place in names_of(tuple(block.body[head:])):
            block.body.insert(head, Declare("int", ((Name(place), Name("first") + "j"),)))

    def _pointer(self, buffer: Buffer, base: Index) -> Expression:
        return total([("+", Name(buffer.name)), *self.block.printer.terms(base), ("+", Name("first"))])
