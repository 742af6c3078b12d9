"""What the words about an emitted kernel are made of: its points, steps, places in memory and traffic, as figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.cpp import Printer, reshaped
from musadata.compiler.ir.code import Element, Expression, Listed, Name, code, rebuild
from musadata.compiler.ir.index_formulas import Index, Opaque, Operation, Variable, divide, of, product
from musadata.compiler.ir.scalar import Added, Buffer, Choose, Compare, Load, Scalar
from musadata.compiler.lowering.fusion import PARTS_AXIS, Kernel, Stage, Store
from musadata.compiler.lowering.layout import flatten
from musadata.records import TensorFact, Trace
from musadata.teacher.reasoning.calls import Call
from musadata.teacher.reasoning.conditions import holds_everywhere
from musadata.teacher.reasoning.launches import Way, ways_of
from musadata.teacher.reasoning.planned_kernels import nodes_of_calls, shares_of

LONGEST_PLACE = 110  # characters of a condition that is quoted
FLAT = "i"


@dataclass(frozen=True)
class Access:
    """An element that a kernel reads or writes at one point of its loops; `element` is as the kernel has it."""

    buffer: Buffer
    index: tuple[Index, ...]
    element: Element

    @cached_property
    def text(self) -> str:
        """`x[row * cols + col]`"""
        return str(self.element)


@dataclass(frozen=True)
class Guard:
    """A condition under which a kernel loads, and the value that counts where it does not hold."""

    condition: str
    other: str


@dataclass(frozen=True)
class KernelFacts:
    """A kernel with the values of the named sizes in the first and in the second set of shapes. Buffers go by the names
    that the trace has for them."""

    kernel: Kernel
    sizes: Mapping[str, int]
    other: Mapping[str, int]
    known: Mapping[Buffer, TensorFact]  # the tensors of the trace that buffers are
    way: Way  # the schedule that the answer has for it

    @property
    def name(self) -> str:
        return self.kernel.name

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """Equal for kernels that differ in names and sizes alone."""
        nodes = (
            type(node).__name__ + getattr(node, "operation", "")
            for stage in self.kernel.stages
            for node in stage.value.walk()
        )
        return (
            len(self.kernel.axes),
            tuple((type(s).__name__, getattr(s, "kind", ""), len(s.axes)) for s in self.kernel.stages),
            tuple(nodes),
        )

    @cached_property
    def is_flat(self) -> bool:
        """Whether all work is per element, without inner loops."""
        return all(isinstance(stage, Store) and not stage.axes for stage in self.kernel.stages)

    @property
    def copies(self) -> bool:
        """Whether it only moves elements."""
        return self.is_flat and all(isinstance(stage.value, Load) for stage in self.kernel.stages)

    @cached_property
    def printer(self) -> Printer:
        return Printer(flat=(self.kernel.axes, Name(FLAT)) if self.is_flat else None)

    def extents(self, axes: Sequence[Variable], sizes: Mapping[str, int]) -> list[int]:
        """The numbers of steps along some axes; where they depend on the place, those in the middle."""
        return [axis.extent.evaluate(sizes) for axis in axes]

    def shape(self, buffer: Buffer) -> tuple[int, ...]:
        return tuple(size.evaluate(self.sizes) for size in buffer.shape)

    @cached_property
    def reads(self) -> list[Access]:
        """What it loads, each place once, constants aside."""
        found: dict[str, Access] = {}
        for stage in self.kernel.stages:
            for access in self.reads_of(stage):
                found.setdefault(access.text, access)
        return list(found.values())

    def reads_of(self, stage: Stage) -> list[Access]:
        loads = [load for load in stage.value.loads if load.buffer.role != "constant"]
        found = {access.text: access for access in (self._access(load.buffer, load.index) for load in loads)}
        return list(found.values())

    @cached_property
    def writes(self) -> list[Access]:
        found = []
        for stage in self.kernel.stages:
            if stage.buffer is not None:
                value = stage.value
                found.append(self._access(stage.buffer, value.index if isinstance(value, Added) else stage.index))
        return found

    def _access(self, buffer: Buffer, index: tuple[Index, ...]) -> Access:
        names = {other.name: fact.name for other, fact in self.known.items()}

        def known(node: object) -> Element | None:
            """What is loaded to know the position, by the trace's name."""
            if isinstance(node, Element) and isinstance(node.array, Name) and node.array.name in names:
                return Element(Name(names[node.array.name]), rebuild(node.place, known))
            return None

        return Access(buffer, index, Element(Name(self.name_of(buffer)), rebuild(self._position(buffer, index), known)))

    def element(self, access: Access) -> str:
        """The element of an access in coordinates: `pad[n, c, h, w]`."""
        return f"{self.name_of(access.buffer)}[{self._coordinates(access.index)}]"

    def _coordinates(self, index: tuple[Index, ...]) -> Expression:
        return Listed(tuple(self.printer.index(one) for one in index) or (code(0),))

    def name_of(self, buffer: Buffer) -> str:
        return self.known[buffer].name if buffer in self.known else buffer.name

    def _position(self, buffer: Buffer, index: tuple[Index, ...]) -> Expression:
        """The flat index, where it is that of the element or simpler than the coordinates; else these."""
        if (self.is_flat and self.printer.is_flat(buffer, index)) or reshaped(buffer, index) is not None:
            return self.printer.offset(buffer, index)
        return self._coordinates(index)

    def step(self, access: Access, axis: Variable) -> int | None:
        """How far an access moves in memory with one step along an axis; None if that differs from place to place."""
        flat = flatten(list(access.index), list(access.buffer.shape))
        total = 0
        for monomial, coefficient in flat.terms:
            nested = [atom for atom in monomial if not isinstance(atom, Variable)]
            if any(isinstance(atom, (Opaque, Operation)) and axis in of(atom).variables for atom in nested):
                return None
            if axis in monomial:
                if any(isinstance(atom, Variable) and atom != axis for atom in monomial):
                    return None
                total += coefficient * prod(of(atom).evaluate(self.sizes) for atom in nested)
        return total

    @cached_property
    def is_partial(self) -> bool:
        """Whether its results are those of parts, which another kernel joins."""
        return any(axis.name in PARTS_AXIS for axis in self.kernel.axes)

    def coordinates(self) -> list[str]:
        """The formulas of those axes that some access needs, from the flat index: `row = i / cols`."""
        if not self.is_flat:
            return []
        used = self._axes_of_places()
        position = of(Variable(FLAT, product(axis.extent for axis in self.kernel.axes)))
        texts = []
        for number, axis in enumerate(self.kernel.axes):
            index, _ = divide(position, product(later.extent for later in self.kernel.axes[number + 1 :]))
            index = divide(index, axis.extent)[1] if number else index
            if axis in used and axis.name != FLAT:
                texts.append(f"`{axis.name} = {self.printer.index(index)}`")
        return texts

    def _axes_of_places(self) -> set[Variable]:
        places = [a for a in (*self.reads, *self.writes) if not self.printer.is_flat(a.buffer, a.index)]
        return {axis for access in places for index in access.index for axis in index.variables}

    def guards(self) -> list[Guard]:
        """Conditions on places under which it loads."""
        found = {}
        for node in self._nodes():
            if not isinstance(node, Choose) or not any(isinstance(part, Compare) for part in node.condition.walk()):
                continue
            loads = any(isinstance(part, Load) for part in node.yes.walk())
            if not loads or any(isinstance(part, Load) for part in node.no.walk()):
                continue
            if not holds_everywhere(node.condition, (self.sizes, self.other)):
                condition = str(self.printer.scalar(node.condition))
                found[condition] = Guard(condition, str(self.printer.scalar(node.no)))
        return [guard for guard in found.values() if len(guard.condition) <= LONGEST_PLACE]

    def loaded_indices(self) -> list[Access]:
        """Loads whose values say where something else is read or written."""
        opaque = [a for n in self._nodes() for f in n.formulas for a in f.atoms() if isinstance(a, Opaque)]
        loads = [node for atom in opaque for node in atom.scalar.walk() if isinstance(node, Load)]
        return list({a.text: a for a in (self._access(load.buffer, load.index) for load in loads)}.values())

    def _nodes(self) -> Iterator[Scalar]:
        for stage in self.kernel.stages:
            yield from stage.value.walk()


def facts_of(candidate: Candidate, calls: Sequence[Call], first: Trace, second: Trace) -> list[KernelFacts]:
    """The facts of each kernel of an answer."""
    sizes, other = sizes_in(candidate, first), sizes_in(candidate, second)
    known = _known_tensors(candidate, calls, first, sizes)
    ways = ways_of(candidate, sizes, other)
    return [KernelFacts(way.emitted.kernel, sizes, other, known, way) for way in ways]


def _known_tensors(
    candidate: Candidate, calls: Sequence[Call], trace: Trace, sizes: Mapping[str, int]
) -> dict[Buffer, TensorFact]:
    """The tensors of the trace that the kernels' buffers are."""
    plain = {(f.role == "input", f.name.replace(".", "_")): f for f in trace.tensors if not f.operator}
    others = {(role, text.format(name)): f for (role, name), f in plain.items() for text in ("{}_data", "layer{}")}
    given = others | plain  # `Program.fresh` gives other names where C++ has the plain one for itself
    found: dict[Buffer, TensorFact] = {}
    nodes = dict(zip(calls, nodes_of_calls(calls, candidate), strict=True))
    for emitted in candidate.kernels:
        kernel = emitted.kernel
        inputs = {b: given.get((b.role == "argument", b.name)) for b in kernel.inputs if b.role != "temporary"}
        found |= {buffer: fact for buffer, fact in inputs.items() if fact is not None}
        whole = [share.call for share in shares_of(kernel, calls, candidate) if share.last]
        for buffer in kernel.outputs:
            sides = [side for size in buffer.shape if (side := size.evaluate(sizes)) > 1]
            results = [call.output for call in whole if buffer.node in nodes[call]]
            if results and [side for side in results[-1].shape if side > 1] == sides:
                found[buffer] = results[-1]
    return found


def sizes_in(candidate: Candidate, trace: Trace) -> Mapping[str, int]:
    """The named sizes of the set of shapes that a trace is of."""
    known = {fact.name: fact.shape for fact in trace.tensors if fact.role == "input"}
    found = candidate.graph.sizes_for(known)
    usual = candidate.hints[0] if candidate.hints else {}
    return {**usual, **found}
