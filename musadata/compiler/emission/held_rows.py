"""Rows in registers, as floats: threads move neighbours at once, and a row that fits is read from memory once.

A row is taken in pieces, as many elements as the threads that share it hold together. A row of one piece stays where it
is from its first reduction to its last store; a longer one is read again by each stage.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

from musadata.compiler.emission.block import UNROLL, Block, decode
from musadata.compiler.emission.cpp import C_TYPES, combined_type, loaded, number, total, vector_functions
from musadata.compiler.emission.pointwise import stored, write_store
from musadata.compiler.ir.code import UNARY, Braces, Choice, Expression, Guard, Name, Run, Some, apply, every
from musadata.compiler.ir.index_formulas import Index, Operation, Variable, product
from musadata.compiler.ir.scalar import Buffer, Choose, Compare, Load, Scalar
from musadata.compiler.lowering.fusion import Kernel, Reduce, Scan, Stage, Store
from musadata.compiler.lowering.layout import flat_position, flatten
from musadata.tracing.roofline import itemsize

MOST_OWN = 64  # elements that a thread holds alone
MOST_HELD = 4  # rows in registers at the same time
_REDUCED = ("sum", "prod", "max", "min", "fast_max", "argmax", "argmin")
_FLOATS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Source:
    """A row in memory: it starts at the offset `base` of a buffer."""

    buffer: Buffer
    base: Index


@dataclass(eq=False)
class HeldRow:
    """How the threads that share a row hold it.

    Attributes:
        length: the number of elements.
        held: rows that reductions read, and the arrays that hold them.
        thread: the place of a thread among the `threads` that share a row; each holds `count` elements of a piece.
        group: neighbours that a thread moves at once.
    """

    length: Index
    held: dict[Source, str]
    thread: Expression
    threads: int
    count: int
    group: int
    _loaded: set[Source] = field(default_factory=set)
    _called: set[tuple[str, str]] = field(default_factory=set)
    _counter = _part = ""

    @property
    def piece(self) -> int:
        return self.threads * self.count

    @property
    def helpers(self) -> list[str]:
        """The device functions that are called."""
        return [
            text for name, dtype in sorted(self._called, key=_after_calls) for text in vector_functions(dtype, name)
        ]

    @property
    def fits(self) -> bool:
        """Whether every row is one piece: the last of several parts may be shorter than the others."""
        atom = self.length.atom
        sides = (atom.left, atom.right) if isinstance(atom, Operation) and atom.kind == "min" else (self.length,)
        return any((side.constant or self.piece + 1) <= self.piece for side in sides)

    def start(self, block: Block, kernel: Kernel) -> None:
        """Declare the arrays, and find out whether neighbours can be moved at once."""
        rows = dict.fromkeys([*self.held, *(s for stage in kernel.stages for s in self._moved(stage))])
        starts = [(apply("reinterpret_cast<size_t>", self._pointer(block, source)), source) for source in rows]
        tests = [(start % min(16, self.group * itemsize(row.buffer.dtype))).equals(0) for start, row in starts]
        if self.length.variables:
            block.name_formula(self.length, "length")
        if self.length.constant is None:
            tests.insert(0, (block.printer.index(self.length, UNARY) % self.group).equals(0))
        block.variable("bool", "aligned", tests[0], note=f"{self.group} elements can be moved at once")
        for test in tests[1:]:
            block.assign("aligned", every(Name("aligned"), test))
        self._counter, self._part = block.fresh("i"), block.fresh("j")
        for source in self.held:
            self.held[source] = block.fresh(f"{source.buffer.name}_row")
            block.array("float", self.held[source], self.count)

    @contextmanager
    def pieces(self, block: Block, *stages: Stage) -> Iterator[Expression | None]:
        """The loop over pieces; what it yields is where a piece starts, if there are several."""
        length, start = block.index(self.length), None if self.fits else Name("start")
        with nullcontext() if self.fits else block.loop("start", 0, length, self.piece):
            read = ((load, stage) for stage in stages for load in stage.value.loads)
            used = [source for load, stage in read if (source := source_of(load, stage)) in self.held]
            for source in dict.fromkeys(source for source in used if source is not None):
                if source not in self._loaded or not self.fits:
                    row = (self.held[source], self._pointer(block, source), self.thread, start or 0, length, "aligned")
                    load = Run(apply(f"load_row<{self.threads}, {self.group}>", *row))
                    is_again = source in self._loaded and self.length.constant is None
                    block.add(Guard(length > self.piece, (load,), short=True) if is_again else load)
                    self._called |= {("load_vector", "float32"), ("load_row", source.buffer.dtype)}
                self._loaded.add(source)
            yield start

    @contextmanager
    def elements(self, block: Block, stages: Sequence[Stage], start: Expression | None) -> Iterator[None]:
        """The loop over a thread's elements of a piece, with names for those that are in registers."""
        counter, length, stage = self._counter, self.length.constant, stages[0]
        flat = stage.axes[0].name if len(stage.axes) == 1 else block.fresh("inner")
        with ExitStack() as scopes:
            scopes.enter_context(block.unrolled(counter, self.count))
            first = (Name(counter) / self.group * self.threads + self.thread) * self.group
            block.declare(flat, (first if start is None else start + first) + Name(counter) % self.group)
            if length is None or length % self.piece:
                scopes.enter_context(block.when(Name(flat) < block.index(self.length)))
            for stage in stages:
                self._name(block, stage, counter)
            self._decode(block, stages, flat)
            yield

    def write_exponentials(self, block: Block, stage: Reduce, top: Name, sum_: Name, shifted: bool) -> None:
        """Add to a maximum and a sum of exponentials below it: of a piece, first the maximum and then the sum. Nothing
        is subtracted where the maximum is -inf, or, with values that are `shifted`, any infinity."""
        new, below = Name(block.fresh("new_max")), Name(block.fresh("below"))
        with self.pieces(block, stage) as start:
            block.variable("float", new.name, top)
            with self.elements(block, [stage], start):
                block.assign(new, apply("fmaxf", new, block.value(stage.value)))
            infinite = apply("isinf", new) if shifted else new.equals(number(-math.inf, "float32"))
            block.declare(below.name, Choice(infinite, number(0, "float32"), new), "float")
            block.assign(sum_, apply("expf", top - below), "*=")
            block.assign(top, new)
            with self.elements(block, [stage], start):
                block.assign(sum_, apply("expf", block.value(stage.value) - below), "+=")

    def write_moments(self, block: Block, stage: Reduce, count: Name, mean: Name, squares: Name) -> None:
        """Count, mean and squares around it of a thread's elements. Those of a piece are found in registers and joined
        to those before (Chan et al., "Updating formulae and a pairwise algorithm", 1979)."""
        new_count, new_mean, new_squares = (Name(block.fresh(f"piece_{name}")) for name in ("count", "mean", "squares"))
        apart, share = Name(block.fresh("distance")), Name(block.fresh("share"))
        zero = number(0, "float32")
        for name in (count, mean, squares):
            block.variable("float", name.name, zero)
        with self.pieces(block, stage) as start:
            for name in (new_count, new_mean, new_squares):
                block.variable("float", name.name, zero)
            with self.elements(block, [stage], start):
                block.assign(new_mean, block.value(stage.value), "+=")
                block.assign(new_count, number(1, "float32"), "+=")
            with block.when(new_count > zero):
                block.assign(new_mean, new_count, "/=")
                with self.elements(block, [stage], start):
                    block.declare(apart.name, block.value(stage.value) - new_mean, "float")
                    block.assign(new_squares, apart * apart, "+=")
                block.declare(apart.name, new_mean - mean, "float")
                block.declare(share.name, new_count / (count + new_count), "float")
                block.assign(squares, new_squares + apart * apart * count * share, "+=")
                block.assign(mean, apart * share, "+=")
                block.assign(count, new_count, "+=")

    def write_stores(self, block: Block, store: Store) -> None:
        """All elements of a stage that stores: neighbours at once, where the row is stored as it is read."""
        target = source_of(_stored(store), store)
        with self.pieces(block, store) as start:
            if target is None:
                with self.elements(block, [store], start):
                    write_store(block, store)
                return
            counter, part, own = Name(self._counter), Name(self._part), block.fresh(f"{store.buffer.name}_part")
            with block.loop(counter.name, 0, self.count, self.group, unroll=UNROLL):
                step = counter * self.threads
                block.declare("first", (step if start is None else start + step) + self.thread * self.group)
                length, dtype = block.index(self.length), store.buffer.dtype
                block.declare("left", length - "first")
                parts = {source: self._fetch(block, source) for source in self._read(store)}
                block.array(C_TYPES[dtype], own, self.group, prefix="__align__(16) ")
                flat = store.axes[0].name if len(store.axes) == 1 else block.fresh("inner")
                with block.unrolled(part.name, self.group):
                    if self._computes(store):
                        block.declare(flat, Name("first") + part)
                    with block.when(Name(flat) < length) if self._computes(store) else nullcontext():
                        self._name(block, store, counter + part, {s: Name(parts[s])[part] for s in parts})
                        self._decode(block, [store], flat)
                        block.assign(Name(own)[part], stored(block.value(store.value), dtype))
                start_of = self._pointer(block, target) + "first"
                block.run(f"store_vector<{self.group}>", start_of, own, "left", "aligned")
                self._called.add(("store_vector", "float32"))

    def holds(self, stage: Stage) -> bool:
        """Whether a stage goes along the whole row."""
        return product(axis.extent for axis in stage.axes) == self.length

    def _moved(self, stage: Stage) -> list[Source]:
        """Rows that a stage that stores moves in vectors beside those that are held."""
        if not isinstance(stage, Store) or not stage.axes or not self.holds(stage):
            return []
        target = source_of(_stored(stage), stage)
        return [] if target is None else [target, *self._read(stage)]

    def _read(self, store: Store) -> list[Source]:
        found = dict.fromkeys(source_of(load, store) for load in always_loaded(store.value))
        return [source for source in found if source is not None and source not in self.held]

    def _fetch(self, block: Block, source: Source) -> str:
        name = block.fresh(f"{source.buffer.name}_part")
        block.array(C_TYPES[source.buffer.dtype], name, self.group, prefix="__align__(16) ", value=Braces())
        block.run(f"load_vector<{self.group}>", name, self._pointer(block, source) + "first", "left", "aligned")
        self._called.add(("load_vector", "float32"))
        return name

    def _name(
        self, block: Block, stage: Stage, element: Some, others: Mapping[Source, Expression] | None = None
    ) -> None:
        for load in stage.value.loads:
            source = source_of(load, stage)
            if source in self.held:
                block.name(load, Name(self.held[source])[element])
            elif others and source is not None and source in others:
                block.name(load, loaded(others[source], load.buffer.dtype))

    def _computes(self, store: Store) -> bool:
        """Whether an element of a store needs more than what is moved in vectors and known for the whole row."""
        loose = [load for load in store.value.loads if source_of(load, store) is None]
        formulas = [f for node in store.value.walk() if not isinstance(node, Load) for f in node.formulas]
        formulas += [formula for load in loose for formula in load.formulas]
        return any(formula.variables & frozenset(store.axes) for formula in formulas)

    def _decode(self, block: Block, stages: Sequence[Stage], flat: str) -> None:
        used: list[Index] = []
        for stage in stages if len(stages[0].axes) > 1 else ():
            used += [f for node in stage.value.walk() if not isinstance(node, Load) for f in node.formulas]
            used += [f for load in stage.value.loads if load not in block.printer.named for f in load.formulas]
            used += stage.index if isinstance(stage, Store) and source_of(_stored(stage), stage) is None else ()
        axes = frozenset[Variable]().union(*(formula.variables for formula in used))
        decode(block, flat, stages[0].axes, axes & frozenset(stages[0].axes))

    def _pointer(self, block: Block, source: Source) -> Expression:
        return total([("+", Name(source.buffer.name)), *block.printer.terms(source.base)])


def always_loaded(value: Scalar) -> Iterator[Load]:
    """The loads whose places are inside of their buffers wherever the value is computed."""
    stack, seen = [value], set[Scalar]()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Load):
            yield node
        is_guard = isinstance(node, Choose) and any(isinstance(part, Compare) for part in node.condition.walk())
        stack.extend([node.condition] if isinstance(node, Choose) and is_guard else node.children)


Place = tuple[Buffer, tuple[Index, ...]]


@dataclass(eq=False)
class OwnRow:
    """What a thread alone holds of what its point reads more than once, element by element.

    Attributes:
        axes: that all stages go along, `count` elements in all.
        loads: that are held, by their places.
    """

    axes: tuple[Variable, ...]
    count: int
    loads: dict[Place, Load]
    _names: dict[Place, str] = field(default_factory=dict)
    _counter = ""

    @property
    def helpers(self) -> list[str]:
        return []

    def start(self, block: Block, kernel: Kernel) -> None:
        """Bring all elements."""
        self._counter = self.axes[0].name if len(self.axes) == 1 else block.fresh("i")
        for place, load in self.loads.items():
            self._names[place] = block.fresh(f"{load.buffer.name}_row")
            block.array(C_TYPES[load.dtype], self._names[place], self.count)
        with self._each(block):
            for place, load in self.loads.items():
                block.assign(Name(self._names[place])[self._counter], block.value(load))

    @contextmanager
    def pieces(self, block: Block, *stages: Stage) -> Iterator[Expression | None]:
        """A row is one piece."""
        yield None

    @contextmanager
    def elements(self, block: Block, stages: Sequence[Stage], start: Expression | None) -> Iterator[None]:
        """The loop over all elements, with names for those that are held."""
        with self._each(block):
            for load in (load for stage in stages for load in stage.value.loads):
                if name := self._names.get((load.buffer, load.index)):
                    block.name(load, Name(name)[self._counter])
            yield

    def write_stores(self, block: Block, store: Store) -> None:
        with self.elements(block, [store], None):
            write_store(block, store)

    def holds(self, stage: Stage) -> bool:
        return stage.axes == self.axes

    @contextmanager
    def _each(self, block: Block) -> Iterator[None]:
        with block.unrolled(self._counter, self.count):
            if len(self.axes) > 1:
                decode(block, self._counter, self.axes, frozenset(self.axes))
            yield


def own_row(kernel: Kernel) -> OwnRow | None:
    """What a thread can hold of its point: what stages along the same few elements read more than once."""
    stages = [stage for stage in kernel.stages if stage.axes]
    axes = stages[0].axes if stages else ()
    count = product(axis.extent for axis in axes).constant or MOST_OWN + 1
    if count > MOST_OWN or any(isinstance(stage, Scan) or stage.axes != axes for stage in stages):
        return None
    read: dict[Place, list[Load]] = {}
    for stage in stages:
        for load in {(load.buffer, load.index): load for load in always_loaded(stage.value)}.values():
            if load.children or load.buffer in kernel.outputs:
                continue
            if load.variables & frozenset(axes) and load.variables & frozenset(kernel.axes):
                read.setdefault((load.buffer, load.index), []).append(load)
    held = {place: loads[0] for place, loads in read.items() if len(loads) > 1}
    return OwnRow(axes, count, held) if held and count * len(held) <= MOST_OWN else None


def _after_calls(function: tuple[str, str]) -> tuple[bool, tuple[str, str]]:
    """What a function calls stands before it."""
    return function[0] == "load_row", function


def _stored(store: Store) -> Load:
    return Load(store.value.dtype, store.buffer, store.index)


def source_of(load: Load, stage: Stage) -> Source | None:
    """The row that a load goes along as its stage goes along the row."""
    if load.buffer.dtype not in _FLOATS or load.buffer.role == "constant" or load.children or not stage.axes:
        return None
    along = flat_position(stage.axes)
    base = flatten(load.index, load.buffer.shape) - along
    return None if base.variables & frozenset(stage.axes) else Source(load.buffer, base)


def held_row(kernel: Kernel, thread: Expression, threads: int, count: int) -> HeldRow | None:
    """How threads hold the rows of a kernel, if it reduces rows that are contiguous and all of one length."""
    stages: Sequence[Reduce | Store] = [s for s in kernel.stages if s.axes and isinstance(s, (Reduce, Store))]
    reduced = [stage for stage in stages if isinstance(stage, Reduce)]
    length = product(axis.extent for axis in reduced[0].axes) if reduced else None
    if length is None or (length.constant or 4) % 4:
        return None
    if any(product(axis.extent for axis in stage.axes) != length for stage in reduced):
        return None
    if any(stage.kind not in _REDUCED or combined_type(stage) != "float32" or stage.contraction for stage in reduced):
        return None
    if any(stage.kind.startswith("arg") and len(stage.axes) > 1 for stage in reduced):
        return None
    found = [source_of(load, stage) for stage in reduced for load in always_loaded(stage.value)]
    held = dict.fromkeys(source for source in found if source is not None)
    if not held or len(held) > MOST_HELD:
        return None
    halves = any(itemsize(source.buffer.dtype) == 2 for source in held)
    group = 8 if halves and (length.constant or 8) % 8 == 0 else 4
    return HeldRow(length, dict.fromkeys(held, ""), thread, threads, count, group)
