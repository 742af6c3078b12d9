"""Results of a product that are stored several neighbouring columns at a time, and what is read for them likewise."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from musadata.compiler.emission.block import Block, decode_used
from musadata.compiler.emission.cpp import C_TYPES, VECTORS, loaded, vector_functions
from musadata.compiler.emission.held_rows import always_loaded
from musadata.compiler.emission.launch import count_of
from musadata.compiler.emission.pointwise import write_store
from musadata.compiler.emission.tile_operands import Operand, alignments, flat_name, is_multiple, pointer_at
from musadata.compiler.emission.tiled import results
from musadata.compiler.ir.code import Expression, Name, Unary, apply, every
from musadata.compiler.ir.index_formulas import Index, Variable
from musadata.compiler.ir.scalar import Added, Buffer, Load
from musadata.compiler.lowering.fusion import Kernel, Store


@dataclass(frozen=True)
class StoredVectors:
    """Which results of a kernel are vectors along its columns.

    Attributes:
        operands: these results, by their numbers, and where they are in memory.
        names: of the arrays in which a thread has neighbours of each.
        reads: what is read for them along the columns, by the names of such arrays, with all that reads the same place.
        tests: the conditions under which all are vectors.
        fixed: results are vectors whatever these conditions.
    """

    kernel: Kernel
    cols: tuple[Variable, ...]
    dtype: str
    operands: Mapping[int, Operand]
    names: Mapping[int, str]
    reads: Mapping[str, tuple[Operand, Sequence[Load]]]
    tests: Sequence[Expression]
    fixed: bool

    @classmethod
    def of(cls, block: Block, kernel: Kernel, cols: tuple[Variable, ...], dtype: str) -> "StoredVectors":
        """Those of one type; none where columns are dealt out to groups or phases."""
        contraction = kernel.reductions[0].contraction
        stores = [] if contraction is None or contraction.shared else results(kernel)
        pairs = ((number, _operand(block, store, cols, dtype)) for number, store in enumerate(stores))
        found = {number: operand for number, operand in pairs if operand.base is not None}
        names = {number: block.fresh(f"{operand.buffer}_part") for number, operand in found.items()}
        places: dict[tuple[Buffer, Index], tuple[Operand, list[Load]]] = {}
        for load in (load for store in stores if found for load in always_loaded(store.value)):
            operand = _along(block, load, cols, dtype if load.variables & frozenset(cols) else "")
            if operand.base is not None and load.buffer.role != "constant":
                places.setdefault((load.buffer, operand.base), (operand, []))[1].append(load)
        reads = {block.fresh(f"{buffer.name}_part"): read for (buffer, _), read in places.items()}
        given = [one for one, (load, *_) in reads.values() if load.buffer.role != "temporary" or load.buffer.alias]
        made = [one for one, _ in reads.values() if one not in given]
        lengths = alignments(block, list(found.values()), allocated=True)
        tests = [*lengths, *alignments(block, made, allocated=True), *alignments(block, given)]
        return cls(kernel, cols, dtype, found, names, reads, tuple(dict.fromkeys(tests)), not lengths)

    @property
    def width(self) -> int:
        """Neighbours of a vector."""
        return int(VECTORS[self.dtype]["count"])

    @property
    def functions(self) -> list[str]:
        """The source of the functions that move them, where they may be no vectors."""
        used = {"load_vector": self.reads and self.tests, "store_vector": not self.fixed}
        return vector_functions(self.dtype, *(name for name, is_used in used.items() if is_used))

    def declare(self, block: Block) -> None:
        """Declare whether they are vectors, where that depends on the call."""
        for test in self.tests[:1]:
            kind = "bool" if self.tests[1:] else "const bool"
            block.variable(kind, "whole", test, note=f"{self.width} elements can be moved at once")
        for test in self.tests[1:]:
            block.assign("whole", every(Name("whole"), test))

    def write(self, block: Block, counter: str, begin: Callable[[], None]) -> None:
        """Store the neighbours of a row from column `first` on. `begin` makes the sum at their `counter` known."""
        col, count, first = flat_name("right", self.cols), count_of(block, self.cols), Name("first")
        for name in (*self.reads, *self.names.values()):
            block.array(C_TYPES[self.dtype], name, self.width, prefix="__align__(16) ")
        for name, (operand, _) in self.reads.items():
            self._move(block, "load_vector", name, operand)
        with block.unrolled(counter, self.width):
            block.declare(col, first + counter)
            with nullcontext() if is_multiple(count, self.width) else block.when(Name(col) < count):
                begin()
                inner = len(block.body)
                for name, (_, loads) in self.reads.items():
                    for load in loads:
                        block.name(load, loaded(Name(name)[counter], self.dtype))
                for number, store in enumerate(results(self.kernel)):
                    write_store(block, store, Name(self.names[number])[counter] if number in self.names else None)
                decode_used(block, inner, (col, self.cols))
        for number, operand in self.operands.items():
            self._move(block, "store_vector", self.names[number], operand)

    def _move(self, block: Block, function: str, name: str, operand: Operand) -> None:
        """From memory to an array, or back."""
        place, kind, is_load = pointer_at(block, operand, Name("first")), VECTORS[self.dtype]["V"], function[0] == "l"
        if self.tests if is_load else not self.fixed:
            given = (name, place) if is_load else (place, name)
            block.run(f"{function}<{self.width}>", *given, count_of(block, self.cols) - "first", "whole")
            return
        source = apply(f"reinterpret_cast<{'const ' * is_load}{kind}*>", place)
        sides = Unary("*", apply(f"reinterpret_cast<{kind}*>", name)), Unary("*", source)
        block.assign(*(sides if is_load else sides[::-1]))


def _operand(block: Block, store: Store, cols: tuple[Variable, ...], dtype: str) -> Operand:
    """A result as an operand that goes along the columns; what is added has no vectors, and what is not allocated."""
    is_allocated = store.buffer.role == "temporary" and not store.buffer.alias
    own = dtype if is_allocated and not isinstance(store.value, Added) else ""
    return _along(block, Load(store.buffer.dtype, store.buffer, store.index), cols, own)


def _along(block: Block, load: Load, cols: tuple[Variable, ...], dtype: str) -> Operand:
    return Operand("right", dtype, load, cols, (), flat_name("right", cols), count_of(block, cols))
