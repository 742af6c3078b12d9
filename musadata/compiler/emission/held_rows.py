"""Rows of floats in registers: threads move four neighbours at a time, and a row that fits is read from memory once.

A row is taken in pieces, as many elements as the threads that share it hold together. A row of one piece stays where it
is from its first reduction to its last store; a longer one is read again by each stage.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

from musadata.compiler.emission.cpp import HELD_ROWS, UNARY, combined_type
from musadata.compiler.emission.pointwise import write_store
from musadata.compiler.emission.statements import INDEX, Block, decode
from musadata.compiler.ir.index_formulas import Index, Variable, product
from musadata.compiler.ir.scalar import Buffer, Choose, Compare, Load, Scalar
from musadata.compiler.lowering.fusion import Kernel, Reduce, Stage, Store
from musadata.compiler.lowering.layout import flat_position, flatten

MOST_HELD = 2  # rows in registers at the same time
_REDUCED = ("sum", "prod", "max", "min", "fast_max", "argmax", "argmin")
_COMPONENTS = "xyzw"


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
    """

    length: Index
    held: dict[Source, str]
    thread: str
    threads: int
    count: int
    _loaded: set[Source] = field(default_factory=set)
    _counter = _part = _four = ""

    @property
    def piece(self) -> int:
        return self.threads * self.count

    @property
    def fits(self) -> bool:
        """Whether every row is one piece."""
        return (self.length.constant or self.piece + 1) <= self.piece

    def start(self, block: Block, kernel: Kernel) -> None:
        """Declare the arrays, and find out whether rows can be moved in fours."""
        rows = dict.fromkeys([*self.held, *(s for stage in kernel.stages for s in self._moved(stage))])
        tests = [f"reinterpret_cast<size_t>({self._pointer(block, source)}) % 16 == 0" for source in rows]
        if self.length.constant is None:
            tests.insert(0, f"{block.printer.index(self.length, UNARY)} % 4 == 0")
        block.write(f"bool aligned = {tests[0]};  // four elements can be moved at once")
        for test in tests[1:]:
            block.write(f"aligned = aligned && {test};")
        self._counter, self._part, self._four = block.fresh("i"), block.fresh("j"), block.fresh("four")
        for source in self.held:
            self.held[source] = block.fresh(f"{source.buffer.name}_row")
            block.write(f"float {self.held[source]}[{self.count}];")

    @contextmanager
    def pieces(self, block: Block, *stages: Stage) -> Iterator[str]:
        """The loop over pieces; what it yields is where a piece starts, with a plus sign."""
        length = block.index(self.length)
        head = f"for ({INDEX} start = 0; start < {length}; start += {self.piece})"
        with nullcontext() if self.fits else block.scope(head):
            read = ((load, stage) for stage in stages for load in stage.value.loads)
            used = [source for load, stage in read if (source := source_of(load, stage)) in self.held]
            for source in dict.fromkeys(source for source in used if source is not None):
                if source not in self._loaded or not self.fits:
                    again = f"if ({length} > {self.piece}) " if source in self._loaded else ""
                    again = "" if self.length.constant is not None else again
                    start = "0" if self.fits else "start"
                    arguments = f"{self.held[source]}, {self._pointer(block, source)}, {self.thread}, {start}, {length}"
                    block.write(f"{again}load_row<{self.threads}>({arguments}, aligned);")
                self._loaded.add(source)
            yield "" if self.fits else "start + "

    @contextmanager
    def elements(self, block: Block, stages: Sequence[Stage], start: str) -> Iterator[None]:
        """The loop over a thread's elements of a piece, with names for those that are in registers."""
        counter, length, stage = self._counter, self.length.constant, stages[0]
        flat = stage.axes[0].name if len(stage.axes) == 1 else block.fresh("inner")
        block.write("#pragma unroll")
        with ExitStack() as scopes:
            scopes.enter_context(block.scope(f"for (int {counter} = 0; {counter} < {self.count}; ++{counter})"))
            place = f"({counter} / 4 * {self.threads} + {self.thread}) * 4 + {counter} % 4"
            block.write(f"const {INDEX} {flat} = {start}{place};")
            if length is None or length % self.piece:
                scopes.enter_context(block.scope(f"if ({flat} < {block.index(self.length)})"))
            for stage in stages:
                self._name(block, stage, counter)
            self._decode(block, stages, flat)
            yield

    def write_exponentials(self, block: Block, stage: Reduce, top: str, total: str, no_shift: str) -> None:
        """Add to a maximum and a sum of exponentials below it: of a piece, first the maximum and then the sum. Where
        `no_shift` holds of the maximum, it is not subtracted."""
        new, below = block.fresh("new_max"), block.fresh("below")
        with self.pieces(block, stage) as start:
            block.write(f"float {new} = {top};")
            with self.elements(block, [stage], start):
                block.write(f"{new} = fmaxf({new}, {block.value(stage.value)});")
            block.write(f"const float {below} = {no_shift.format(new)} ? 0.0f : {new};")
            block.write(f"{total} *= expf({top} - {below});")
            block.write(f"{top} = {new};")
            with self.elements(block, [stage], start):
                block.write(f"{total} += expf({block.value(stage.value)} - {below});")

    def write_moments(self, block: Block, stage: Reduce, count: str, mean: str, squares: str) -> None:
        """Count, mean and squares around it of a thread's elements. Those of a piece are found in registers and joined
        to those before (Chan et al., "Updating formulae and a pairwise algorithm", 1979)."""
        new_count, new_mean, new_squares = (block.fresh(f"piece_{name}") for name in ("count", "mean", "squares"))
        apart, share = block.fresh("distance"), block.fresh("share")
        for name in (count, mean, squares):
            block.write(f"float {name} = 0.0f;")
        with self.pieces(block, stage) as start:
            for name in (new_count, new_mean, new_squares):
                block.write(f"float {name} = 0.0f;")
            with self.elements(block, [stage], start):
                block.write(f"{new_mean} += {block.value(stage.value)};")
                block.write(f"{new_count} += 1.0f;")
            with block.scope(f"if ({new_count} > 0.0f)"):
                block.write(f"{new_mean} /= {new_count};")
                with self.elements(block, [stage], start):
                    block.write(f"const float {apart} = {block.value(stage.value)} - {new_mean};")
                    block.write(f"{new_squares} += {apart} * {apart};")
                block.write(f"const float {apart} = {new_mean} - {mean};")
                block.write(f"const float {share} = {new_count} / ({count} + {new_count});")
                block.write(f"{squares} += {new_squares} + {apart} * {apart} * {count} * {share};")
                block.write(f"{mean} += {apart} * {share};")
                block.write(f"{count} += {new_count};")

    def write_stores(self, block: Block, store: Store) -> None:
        """All elements of a stage that stores: four at a time, where the row is stored as it is read."""
        target = source_of(Load("float32", store.buffer, store.index), store)
        with self.pieces(block, store) as start:
            if target is None:
                with self.elements(block, [store], start):
                    write_store(block, store)
                return
            counter, part, four = self._counter, self._part, self._four
            block.write("#pragma unroll")
            with block.scope(f"for (int {counter} = 0; {counter} < {self.count}; {counter} += 4)"):
                block.write(f"const {INDEX} first = {start}{counter} * {self.threads} + {self.thread} * 4;")
                fours = {source: self._fetch(block, source) for source in self._read(store)}
                length = block.index(self.length)
                block.write(f"float {four}[4] = {{}};")
                flat = store.axes[0].name if len(store.axes) == 1 else block.fresh("inner")
                with block.unrolled(part, 4):
                    if self._computes(store):
                        block.write(f"const {INDEX} {flat} = first + {part};")
                    with block.scope(f"if ({flat} < {length})") if self._computes(store) else nullcontext():
                        self._name(block, store, f"{counter} + {part}", {s: f"{fours[s]}[{part}]" for s in fours})
                        self._decode(block, [store], flat)
                        block.write(f"{four}[{part}] = {block.value(store.value)};")
                pointer = f"{self._pointer(block, target)} + first"
                block.write(f"store_four({pointer}, {four}, {length} - first, aligned);")

    def holds(self, stage: Stage) -> bool:
        """Whether a stage goes along the whole row."""
        return product(axis.extent for axis in stage.axes) == self.length

    def _moved(self, stage: Stage) -> list[Source]:
        """Rows that a stage that stores moves in fours beside those that are held."""
        if not isinstance(stage, Store) or not stage.axes or not self.holds(stage):
            return []
        target = source_of(Load("float32", stage.buffer, stage.index), stage)
        return [] if target is None else [target, *self._read(stage)]

    def _read(self, store: Store) -> list[Source]:
        found = dict.fromkeys(source_of(load, store) for load in _always_loaded(store.value))
        return [source for source in found if source is not None and source not in self.held]

    def _fetch(self, block: Block, source: Source) -> str:
        name, four = block.fresh(f"{source.buffer.name}_parts"), block.fresh(f"{source.buffer.name}_four")
        at = f"{self._pointer(block, source)} + first"
        block.write(f"const float4 {four} = load_four({at}, {block.index(self.length)} - first, aligned);")
        block.write(f"const float {name}[4] = {{{', '.join(f'{four}.{c}' for c in _COMPONENTS)}}};")
        return name

    def _name(self, block: Block, stage: Stage, element: str, others: dict[Source, str] | None = None) -> None:
        for load in stage.value.loads:
            source = source_of(load, stage)
            if source in self.held:
                block.name(load, f"{self.held[source]}[{element}]")
            elif others and source in others:
                block.name(load, others[source])

    def _computes(self, store: Store) -> bool:
        """Whether an element of a store needs more than what is moved in fours and known for the whole row."""
        loose = [load for load in store.value.loads if source_of(load, store) is None]
        formulas = [f for node in store.value.walk() if not isinstance(node, Load) for f in node.formulas]
        formulas += [formula for load in loose for formula in load.formulas]
        return any(formula.variables & frozenset(store.axes) for formula in formulas)

    def _decode(self, block: Block, stages: Sequence[Stage], flat: str) -> None:
        used: list[Index] = []
        for stage in stages if len(stages[0].axes) > 1 else ():
            used += [f for node in stage.value.walk() if not isinstance(node, Load) for f in node.formulas]
            used += [f for load in stage.value.loads if id(load) not in block.printer.named for f in load.formulas]
            used += stage.index if isinstance(stage, Store) and source_of(_stored(stage), stage) is None else ()
        axes = frozenset[Variable]().union(*(formula.variables for formula in used))
        decode(block, flat, stages[0].axes, axes & frozenset(stages[0].axes))

    def _pointer(self, block: Block, source: Source) -> str:
        base = block.printer.index(source.base) if source.base.terms else ""
        return f"{source.buffer.name} + {base}" if base else source.buffer.name


def _always_loaded(value: Scalar) -> Iterator[Load]:
    """The loads whose places are inside of their buffers wherever the value is computed."""
    stack, seen = [value], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Load):
            yield node
        is_guard = isinstance(node, Choose) and any(isinstance(part, Compare) for part in node.condition.walk())
        stack.extend([node.condition] if isinstance(node, Choose) and is_guard else node.children)


def _stored(store: Store) -> Load:
    return Load("float32", store.buffer, store.index)


def source_of(load: Load, stage: Stage) -> Source | None:
    """The row of floats that a load goes along as its stage goes along the row."""
    if load.buffer.dtype != "float32" or load.buffer.role == "constant" or load.children or not stage.axes:
        return None
    along = flat_position(stage.axes)
    base = flatten(load.index, load.buffer.shape) - along
    return None if base.variables & frozenset(stage.axes) else Source(load.buffer, base)


def held_row(kernel: Kernel, thread: str, threads: int, count: int) -> HeldRow | None:
    """How threads hold the rows of a kernel, if it reduces rows of floats that are contiguous and all of one length."""
    stages: Sequence[Reduce | Store] = [s for s in kernel.stages if s.axes and isinstance(s, (Reduce, Store))]
    reduced = [stage for stage in stages if isinstance(stage, Reduce)]
    length = product(axis.extent for axis in reduced[0].axes) if reduced else None
    if length is None or length.variables or (length.constant or 4) % 4:
        return None
    if any(product(axis.extent for axis in stage.axes) != length for stage in reduced):
        return None
    if any(stage.kind not in _REDUCED or combined_type(stage) != "float32" or stage.contraction for stage in reduced):
        return None
    if any(stage.kind.startswith("arg") and len(stage.axes) > 1 for stage in reduced):
        return None
    found = [source_of(load, stage) for stage in reduced for load in _always_loaded(stage.value)]
    held = dict.fromkeys(source for source in found if source is not None)
    if not held or len(held) > MOST_HELD:
        return None
    return HeldRow(length, dict.fromkeys(held, ""), thread, threads, count)


def helpers_of(source: str) -> str:
    """The device functions that a kernel with held rows calls."""
    return "".join(f"{text}\n" for name, text in HELD_ROWS.items() if f"{name}(" in source or f"{name}<" in source)
