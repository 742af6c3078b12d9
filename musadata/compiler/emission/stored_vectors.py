"""Results of a product that are stored several neighbouring columns at a time."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from musadata.compiler.emission.block import Block, decode_used
from musadata.compiler.emission.cpp import C_TYPES, VECTORS, vector_functions
from musadata.compiler.emission.launch import count_of
from musadata.compiler.emission.pointwise import write_store
from musadata.compiler.emission.tile_operands import Operand, alignments, flat_name, is_multiple, pointer_at
from musadata.compiler.emission.tiled import results
from musadata.compiler.ir.code import Expression, Name, Unary, apply, every
from musadata.compiler.ir.index_formulas import Variable
from musadata.compiler.ir.scalar import Added, Load
from musadata.compiler.lowering.fusion import Kernel, Store


@dataclass(frozen=True)
class StoredVectors:
    """Which results of a kernel are vectors along its columns.

    Attributes:
        operands: these results, by their numbers, and where they are in memory.
        names: of the arrays in which a thread has neighbours of each.
        tests: the conditions under which all are vectors.
    """

    kernel: Kernel
    cols: tuple[Variable, ...]
    dtype: str
    operands: Mapping[int, Operand]
    names: Mapping[int, str]
    tests: Sequence[Expression]

    @classmethod
    def of(cls, block: Block, kernel: Kernel, cols: tuple[Variable, ...], dtype: str) -> "StoredVectors":
        """Those of one type; none where columns are dealt out to groups or phases."""
        contraction = kernel.reductions[0].contraction
        stores = [] if contraction is None or contraction.shared else results(kernel)
        pairs = ((number, _operand(block, store, cols, dtype)) for number, store in enumerate(stores))
        found = {number: operand for number, operand in pairs if operand.base is not None}
        names = {number: block.fresh(f"{operand.buffer}_part") for number, operand in found.items()}
        return cls(kernel, cols, dtype, found, names, alignments(block, list(found.values()), allocated=True))

    @property
    def width(self) -> int:
        """Neighbours of a vector."""
        return int(VECTORS[self.dtype]["count"])

    @property
    def functions(self) -> list[str]:
        """The source of the function that stores them, where they may be no vectors."""
        return vector_functions(self.dtype, "store_vector") if self.tests else []

    def declare(self, block: Block) -> None:
        """Declare whether they are vectors, where that depends on the call."""
        for test in self.tests[:1]:
            kind = "bool" if self.tests[1:] else "const bool"
            block.variable(kind, "whole", test, note=f"{self.width} elements can be stored at once")
        for test in self.tests[1:]:
            block.assign("whole", every(Name("whole"), test))

    def write(self, block: Block, counter: str, begin: Callable[[], None]) -> None:
        """Store the neighbours of a row from column `first` on. `begin` makes the sum at their `counter` known."""
        col, count, first = flat_name("right", self.cols), count_of(block, self.cols), Name("first")
        for name in self.names.values():
            block.array(C_TYPES[self.dtype], name, self.width, prefix="__align__(16) ")
        with block.unrolled(counter, self.width):
            block.declare(col, first + counter)
            with nullcontext() if is_multiple(count, self.width) else block.when(Name(col) < count):
                begin()
                inner = len(block.body)
                for number, store in enumerate(results(self.kernel)):
                    write_store(block, store, Name(self.names[number])[counter] if number in self.names else None)
                decode_used(block, inner, (col, self.cols))
        for number, operand in self.operands.items():
            place, name = pointer_at(block, operand, first), self.names[number]
            if self.tests:
                block.run(f"store_vector<{self.width}>", place, name, count - first, "whole")
            else:
                kind = VECTORS[self.dtype]["V"]
                target, value = apply(f"reinterpret_cast<{kind}*>", place), apply(f"reinterpret_cast<{kind}*>", name)
                block.assign(Unary("*", target), Unary("*", value))


def _operand(block: Block, store: Store, cols: tuple[Variable, ...], dtype: str) -> Operand:
    """A result as an operand that goes along the columns; what is added has no vectors, and what is not allocated."""
    value = Load(store.buffer.dtype, store.buffer, store.index)
    is_allocated = store.buffer.role == "temporary" and not store.buffer.alias
    own = dtype if is_allocated and not isinstance(store.value, Added) else ""
    return Operand("right", own, value, cols, (), flat_name("right", cols), count_of(block, cols))
