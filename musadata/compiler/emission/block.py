"""Building the body of a kernel: variables with readable names, guarded loads as `if`, no overlong lines."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path

import jinja2
import yaml

from musadata.compiler.emission.cpp import C_TYPES, Printer, loaded, reshaped, total
from musadata.compiler.ir.code import (
    BLOCK_DIM_X,
    BLOCK_X,
    GRID_DIM_X,
    THREAD_X,
    Assign,
    Barrier,
    Blank,
    Body,
    Declare,
    Expression,
    Guard,
    Inserted,
    Jump,
    Loop,
    Name,
    Run,
    Some,
    Statement,
    Template,
    apply,
    code,
    names_of,
)
from musadata.compiler.ir.index_formulas import Index, Opaque, Operation, Variable, divide, of, product
from musadata.compiler.ir.printing import pieces
from musadata.compiler.ir.program import SPATIAL_AXES, axis_names
from musadata.compiler.ir.scalar import (
    MATH_FUNCTIONS,
    RESERVED_NAMES,
    Among,
    Call,
    Cast,
    Choose,
    Compare,
    Formula,
    Literal,
    Load,
    Local,
    Named,
    Scalar,
    free_name,
    same,
)
from musadata.compiler.ir.schedule import Schedule
from musadata.compiler.lowering.fusion import Kernel
from musadata.compiler.lowering.layout import flat_position

LONGEST_TEXT = 72  # an expression that is longer gets a variable of its own
LONGEST_ASSIGNED = 80  # of a choice, whose operands get variables if it is longer
LONGEST_FORMULA = 48  # the same for index formulas
LONGEST_QUOTIENT = 12  # the same for quotients inside of formulas
INDEX = "int"
_PARTS = yaml.safe_load((Path(__file__).parent / "templates" / "kernel_parts.yaml").read_text(encoding="utf-8"))
_JINJA = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
PARTS = {name: _JINJA.from_string(text) for name, text in _PARTS.items()}
_MOVING = frozenset(chain.from_iterable(SPATIAL_AXES.values()))
_MARKED = re.compile("(\0\\w+\0)")
_DIGITS = re.compile(r"\d+")
UNROLL = "#pragma unroll"
Scope = AbstractContextManager[None]
Flat = tuple[str, tuple[Variable, ...]]  # the name of a flat position, and the axes that it goes over


class Block:
    """The body of a kernel under construction, with the names and values that are in scope.

    Names are unique in a kernel. A value that has been given a variable is written by its name from then on, as long
    as the scope in which that happened is open. With `alike_in`, names of sizes, kernels that layers share do not
    differ by these alone, and are brief.
    """

    def __init__(self, taken: Iterable[str], *, alike_in: Sequence[str] | None = None):
        self.body: list[Statement] = []  # of the scope that is open
        self.alike = alike_in is not None
        self.functions: dict[tuple[str, str], None] = {}
        self.printer = Printer(functions=self.functions)
        self._sizes = frozenset(alike_in or ())
        self._names = set(taken) | RESERVED_NAMES
        self._uses: Counter[Scalar] = Counter()
        self._results: dict[str, list[Named]] = {}  # that were given a variable, by their names

    @classmethod
    def of(cls, kernel: Kernel, schedule: Schedule, own: Iterable[str]) -> "Block":
        """The body of a kernel, with names of its own beside those of its tensors, axes and sizes."""
        names = [*names_in(kernel), *own]
        return cls(names, alike_in=kernel.size_names if schedule.alike else None)

    def add(self, *statements: Statement) -> None:
        self.body += statements

    def blank(self) -> None:
        self.add(Blank())

    def declare(self, name: str, value: Some, kind: str = INDEX, *, note: str = "") -> None:
        """A constant: `const int name = value;`."""
        self.add(Declare(kind, ((Name(name), code(value)),), note=note))

    def declare_all(self, **values: Expression) -> None:
        """Several integers in one statement."""
        self.add(Declare(INDEX, tuple((Name(name), value) for name, value in values.items())))

    def variable(self, kind: str, name: str, value: Some | None = None, *, note: str = "") -> None:
        self.add(Declare(kind, ((Name(name), None if value is None else code(value)),), "", note=note))

    def array(
        self, kind: str, name: str, *sizes: int | str, prefix: str = "", value: Expression | None = None, note: str = ""
    ) -> None:
        self.add(Declare(kind, ((Name(name), value),), prefix, sizes, note))

    def shared(self, kind: str, name: str, *sizes: int | str, aligned: bool = False, note: str = "") -> None:
        """An array in shared memory."""
        prefix = f"__shared__ {'__align__(16) ' * aligned}"
        self.add(Declare(kind, ((Name(name), None),), prefix, sizes, note))

    def assign(self, target: Some, value: Some, sign: str = "=", *, apart: bool = False) -> None:
        self.add(Assign(code(target), sign, code(value), apart))

    def run(self, function: str, *arguments: Some, note: str = "") -> None:
        self.add(Run(apply(function, *arguments), note))

    def barrier(self, note: str = "", function: str = "__syncthreads") -> None:
        self.add(Barrier(note, function))

    def leave(self, condition: Expression, word: str = "return", note: str = "") -> None:
        self.add(Guard(condition, (Jump(word),), short=True, note=note))

    def paste(self, part: str, /, **words: object) -> None:
        """Add statements of `kernel_parts.yaml`. Expressions among the words stay what they are, and statements, which
        have lines of their own."""
        known = {f"\0{name}\0": word for name, word in words.items() if isinstance(word, (Expression, Inserted))}
        text = PARTS[part].render(words | {mark.strip("\0"): mark for mark in known}).rstrip("\n") + "\n"
        text = re.sub(
            "|".join(f"(?<={mark})\n" for mark, word in known.items() if isinstance(word, Inserted)), "", text
        )
        self.add(Template(tuple(known.get(part, part) for part in _MARKED.split(text) if part)))

    def inserted(
        self, depth: int, rename: Mapping[str, Expression], write: Callable[[], None], *flat: "Flat"
    ) -> Inserted:
        """What a function adds, at a depth of a template; the axes that it uses are computed from flat positions
        first."""
        found: list[Statement] = []
        self.printer.rename = rename

        def keep(body: Body) -> Statement:
            found.extend(body)
            return Blank()

        outer = [*self.body]
        with self.scope(keep):
            write()
        self.body = found
        decode_used(self, 0, *flat)
        found, self.body = self.body, outer
        return Inserted(tuple(found), depth)

    @contextmanager
    def scope(self, make: Callable[[Body], Statement]) -> Iterator[None]:
        """The statements that are added inside become the body of one; variables that are made inside are forgotten
        after it."""
        outer, self.body = self.body, []
        named, positions = dict(self.printer.named), dict(self.printer.positions)
        yield
        self.printer.named, self.printer.positions = named, positions
        inner, self.body = tuple(self.body), outer
        self.add(make(inner))

    def when(self, condition: Expression) -> "Scope":
        return self.scope(lambda body: Guard(condition, body))

    def otherwise(self) -> "Scope":
        """The other branch of the `if` that was added last."""
        guard = self.body.pop()
        assert isinstance(guard, Guard)
        return self.scope(lambda body: Guard(guard.condition, guard.body, body))

    def loop(
        self, name: str, first: Some, limit: Some, step: Some | None = None, *, kind: str = INDEX, unroll: str = ""
    ) -> "Scope":
        """`for (int name = first; name < limit; name += step)`."""
        return self.go(name, first, Name(name) < limit, step, kind=kind, unroll=unroll)

    def go(
        self,
        name: str,
        first: Some,
        condition: Expression,
        step: Some | None = None,
        *,
        kind: str = INDEX,
        unroll: str = "",
        beside: Mapping[str, Expression] = {},
    ) -> "Scope":
        """A loop with any condition; with other variables beside its own."""
        variables = ((Name(name), code(first)), *((Name(one), value) for one, value in beside.items()))
        moved = None if step is None else code(step)
        return self.scope(lambda body: Loop(kind, variables, condition, moved, body, unroll))

    def unrolled(self, counter: str, count: int | str) -> "Scope":
        """A loop that is unrolled, since what it goes along is in registers."""
        return self.loop(counter, 0, count, unroll=UNROLL)

    def unrolled_line(self, counter: str, count: int, statement: Statement) -> None:
        """The same around one statement, on one line."""
        variables = ((Name(counter), code(0)),)
        self.add(Loop(INDEX, variables, Name(counter) < count, None, (statement,), UNROLL, short=True))

    def point_loop(self, point: str, stride: bool, write_body: Callable[[], None]) -> None:
        """What a thread does at its own point, or at all points that it strides over."""
        first = BLOCK_X * BLOCK_DIM_X + THREAD_X
        if stride:
            self.declare("step", GRID_DIM_X * BLOCK_DIM_X)
            with self.loop(point, first, "total", "step"):
                write_body()
        else:
            self.declare(point, first)
            self.leave(Name(point) >= "total")
            write_body()

    def length(self, value: Expression) -> int:
        """Characters of an expression; each number counts as two, so that kernels do not differ by their sizes alone.
        In kernels that layers share, names of sizes count as numbers do."""
        mark = "size" if self.alike else "00"

        def length(piece: object) -> int:
            if isinstance(piece, Name) and piece.name in self._sizes:
                return len(mark)
            text = piece if isinstance(piece, str) else piece.name if isinstance(piece, Name) else piece.digits  # type: ignore[attr-defined]
            return len(_DIGITS.sub(mark, text))

        return sum(map(length, pieces(value)))

    def fresh(self, name: str) -> str:
        """A variable name that is not taken."""
        name = name.strip("_") or "element"
        result = free_name(self._names, f"{name}_value" if name in RESERVED_NAMES else name)
        self._names.add(result)
        return result

    def name(self, value: Scalar, text: Some) -> None:
        """Write a value so from now on, in this scope."""
        self.printer.named[value] = code(text)
        if isinstance(value, Named):
            self._results.setdefault(value.name, []).append(value)

    def name_flat(self, axes: Sequence[Variable], name: str) -> None:
        """Write the flat position over axes by this name from now on, if they are several."""
        if len(axes) > 1:
            self.printer.positions[flat_position(axes)] = Name(name)

    def index(self, index: Index) -> Expression:
        return self.printer.index(index)

    def value(self, value: Scalar) -> Expression:
        """The expression of a value, after adding the statements that it needs."""
        self._count(value)
        self._name_positions(value)
        self._prepare(value, root=True)
        return self.printer.scalar(value)

    @contextmanager
    def element(self, value: Scalar, identity: Expression | None) -> Iterator[Expression]:
        """What a reduction adds. What does not take part is left out by an `if`, and in shared kernels what
        changes nothing."""
        if isinstance(value, Among):
            with self.when(self.value(value.condition)):
                yield self.value(value.value)
            return
        is_new = isinstance(value, Choose) and value not in self.printer.named and self.alike
        if not isinstance(value, Choose) or not is_new or self.printer.scalar(value.no) != identity:
            yield self.value(value)
            return
        with self.chosen(value) as yes:
            self._prepare(yes, root=True)
            self._name_loads(yes)
            yield self.printer.scalar(yes)

    @contextmanager
    def chosen(self, value: Choose) -> Iterator[Scalar]:
        """The first side of a choice, inside of an `if`."""
        self._count(value)
        self._name_positions(value)
        self._prepare(value.condition, root=False)
        with self.when(self.printer.scalar(value.condition)):
            yield value.yes

    def name_shared(self, values: Sequence[Scalar]) -> None:
        """Give what several values load a variable."""
        loads = (node for value in values for node in self._unguarded(value) if isinstance(node, Load))
        for load in [node for node, count in Counter(loads).items() if count > 1]:
            self.value(load)
            if load not in self.printer.named:
                self._declare(load, self._name_for(load))

    def held(self, value: Named) -> Expression:
        """The variable that holds a value, which is added if there is none yet."""
        if value not in self.printer.named:
            self._declare(value, value.name, self.value(value))
        return self.printer.named[value]

    def hoist(self, value: Scalar, fixed: frozenset[Variable], locals_known: frozenset[str]) -> None:
        """Compute ahead of a loop what its value needs and what does not change inside of the loop."""
        self._count(value)
        inside: set[Scalar] = set()
        for node in self._unguarded(value):
            if node in inside and self._uses[node] == 1:
                continue
            costly = isinstance(node, Call) and node.operation in MATH_FUNCTIONS
            movable = costly or isinstance(node, (Named, Load))
            movable = movable and node.variables <= fixed and node.locals <= locals_known
            if movable and node not in self.printer.named:
                inside.update(node.walk())
                self._prepare(node, root=False)
                if not isinstance(node, Named) and node not in self.printer.named:
                    self._declare(node, f"row_{node.operation}" if isinstance(node, Call) else self._name_for(node))

    def _unguarded(self, value: Scalar) -> list[Scalar]:
        """Nodes that are computed whatever the conditions are, outermost first."""
        found: list[Scalar] = []
        stack, seen = [value], set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            found.append(node)
            stack.extend(reversed([node.condition] if isinstance(node, Choose) else list(node.children)))
        return found

    def _count(self, value: Scalar) -> None:
        self._uses = Counter(child for node in value.walk() for child in node.children)

    def _name_positions(self, value: Scalar) -> None:
        """Give positions that are computed and used more than once a variable: `const int in_h = oh * 2 + kh - 1`."""
        names: dict[Index, str] = {}
        formulas: list[Index] = []
        for node in value.walk(self.printer.named):
            if isinstance(node, Load) and (flat := reshaped(node.buffer, node.index)) is not None:
                formulas.append(flat)
                continue
            formulas += node.formulas
            if isinstance(node, Load):
                for place, formula in enumerate(node.index):
                    names.setdefault(formula, f"in_{axis_names(len(node.index))[place]}")
        self.name_formulas(formulas, names)

    def name_formulas(self, formulas: Iterable[Index], names: Mapping[Index, str]) -> None:
        """Give a variable to parts of formulas that are long or used more than once, innermost first.

        `names` proposes names for whole formulas.
        """
        counts: Counter[Index] = Counter()
        for formula in formulas:
            if formula not in self.printer.positions:
                inner = [of(atom) for atom in formula.atoms() if isinstance(atom, Operation) and of(atom) != formula]
                counts.update(filter(_is_computed, (formula, *inner)))
        for formula in sorted(counts, key=lambda f: self.length(self.printer.index(f))):
            if formula in self.printer.positions:
                continue
            length = self.length(self.printer.index(formula))
            repeated = counts[formula] > 1 and (formula in names or isinstance(formula.atom, Operation))
            nested = isinstance(formula.atom, Operation) and length > LONGEST_QUOTIENT
            if length > LONGEST_FORMULA or ((repeated or nested) and formula.variables):
                self.name_formula(formula, names.get(formula) or _formula_name(formula))

    def name_formula(self, formula: Index, name: str) -> Name:
        """Give a formula a variable."""
        found = Name(self.fresh(name))
        value = self.printer.index(formula)
        moving = [v for v in sorted(formula.variables, key=lambda v: v.name) if v.name in _MOVING]
        if (
            len(moving) == 1
            and len(formula.variables) > 1
            and self.alike
            and ((of(moving[0]).terms[0]) in formula.terms)
        ):  # how far a window moves, in kernels that others share in which it moves farther
            one_step = Name(moving[0].name) * 1
            value = total([("+", one_step), *self.printer.terms(formula - of(moving[0]))])
        self.declare(found.name, value)
        self.printer.positions[formula] = found
        return found

    def _prepare(self, node: Scalar, *, root: bool) -> None:
        if node in self.printer.named or isinstance(node, (Literal, Local)):
            return
        if isinstance(node, Choose):
            self._prepare_choice(node, root=root)
            return
        if isinstance(node, Named) and (known := self._known(node)):
            self.name(node, known)
            return
        if isinstance(node, Named) and isinstance(node.value, Choose) and node.value not in self.printer.named:
            self._prepare_choice(node.value, root=True, name=node.name)
            if node.value in self.printer.named:
                self.name(node, self.printer.named[node.value])
                return
        for child in node.children:
            self._prepare(child, root=isinstance(node, Named))
        if isinstance(node, Load):
            self._shorten_offset(node)
        if not root and self._deserves_name(node):
            self._declare(node, self._name_for(node))

    def _known(self, node: Named) -> Expression | None:
        """The variable that already holds the same value, made for another reader of it."""
        held = (other for other in self._results.get(node.name, ()) if other in self.printer.named)
        return next((self.printer.named[other] for other in held if same(other, node)), None)

    def _deserves_name(self, node: Scalar) -> bool:
        if isinstance(node, Named):
            return not isinstance(node.value, Literal)
        computed = isinstance(node, Cast) and not isinstance(node.argument, (Local, Formula))
        if self._uses[node] > 1 and (computed or isinstance(node, (Load, Call))):
            return True
        return self.length(self.printer.scalar(node)) > LONGEST_TEXT and not isinstance(node, Formula)

    def _name_for(self, node: Scalar) -> str:
        if isinstance(node, Named):
            return node.name
        if isinstance(node, Load):
            return f"{node.buffer.name}_value"
        if isinstance(node, Compare) or node.dtype == "bool":
            return "inside"
        return "place" if node.dtype == "int64" else "part"

    def _declare(self, node: Scalar, name: str, value: Expression | None = None) -> None:
        value = value or self.printer.scalar(node)
        name = self.fresh(name)
        self.declare(name, value, C_TYPES[node.dtype])
        self.name(node, name)
        if isinstance(node, Named):
            self.name(node.value, name)

    def _shorten_offset(self, load: Load) -> None:
        place = self.printer.offset(load.buffer, load.index)
        if self.length(place) > LONGEST_TEXT:
            name = self.fresh(f"{load.buffer.name}_offset")
            self.declare(name, place)
            self.name(load, loaded(Name(load.buffer.name)[name], load.buffer.dtype))

    def _prepare_choice(self, node: Choose, *, root: bool, name: str = "") -> None:
        self._prepare(node.condition, root=False)
        if self._is_simple(node):
            if not root and (self._uses[node] > 1 or self.length(self.printer.scalar(node)) > LONGEST_TEXT):
                self._declare(node, "selected")
            return
        name = self.fresh(name or ("selected" if not isinstance(node.yes, Named) else node.yes.name))
        condition = self.printer.scalar(node.condition)
        is_plain = isinstance(node.no, (Literal, Local))
        self.variable(C_TYPES[node.dtype], name, self.printer.scalar(node.no) if is_plain else None)
        with self.when(condition):
            self._assign(name, node.yes)
        if not is_plain:
            with self.otherwise():
                self._assign(name, node.no)
        self.name(node, name)

    def _assign(self, name: str, value: Scalar) -> None:
        self._prepare(value, root=True)
        self._name_loads(value)
        self.assign(name, self.printer.scalar(value))

    def _name_loads(self, value: Scalar) -> None:
        """Give what a long value reads variables."""
        if self.length(self.printer.scalar(value)) > LONGEST_ASSIGNED:
            for child in value.children:
                if isinstance(child, Load) and child not in self.printer.named:
                    self._declare(child, self._name_for(child))

    def _is_simple(self, node: Choose) -> bool:
        """Both sides are short and need no statements of their own."""
        for side in (node.yes, node.no):
            open_parts = [part for part in self._unguarded(side) if part not in self.printer.named]
            if any(isinstance(p, Choose) or (isinstance(p, Named) and p is not side) for p in open_parts):
                return False
        return self.length(self.printer.scalar(node)) <= LONGEST_TEXT + 20


def names_in(kernel: Kernel) -> list[str]:
    """Names that a kernel's own variables must not take."""
    buffers = [b.name for b in (*kernel.inputs, *kernel.outputs)]
    return [*buffers, *(v.name for v in kernel.axes), *kernel.size_names]


def _is_computed(formula: Index) -> bool:
    """Whether a formula is more than a variable or a size, and needs no load."""
    computed = len(formula.terms) > 1 or isinstance(formula.atom, Operation)
    return computed and not any(isinstance(atom, Opaque) for atom in formula.atoms())


def _formula_name(formula: Index) -> str:
    atom = formula.atom
    kind = atom.kind if isinstance(atom, Operation) else ""
    return {"min": "end", "max": "begin", "//": "cell", "%": "rest"}.get(kind, "place")


def decode(block: Block, flat: str, variables: tuple[Variable, ...], used: frozenset[Variable]) -> None:
    """Add the loop variables that are used as functions of a flat position over all of them."""
    position = of(Variable(flat, product(v.extent for v in variables)))
    for place, variable in enumerate(variables):
        rest = product(v.extent for v in variables[place + 1 :])
        if variable not in used:
            continue
        index, _ = divide(position, rest)
        if place:
            index = divide(index, variable.extent)[1]
        block.declare(variable.name, block.index(index))


def decode_used(block: Block, place: int, *parts: Flat) -> None:
    """Before the statements from `place` on, compute the axes from their flat positions that those use by name."""
    body, names = block.body[place:], names_of(tuple(block.body[place:]))
    del block.body[place:]
    for flat, axes in parts:
        if len(axes) > 1:
            decode(block, flat, axes, frozenset(v for v in axes if v.name in names))
    block.body += body
