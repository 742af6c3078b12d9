"""CUDA C++ as values: expressions, statements and functions. `printing.py` makes text of them, once, at the end.

Emission builds these trees, and what has to know something of a kernel asks them: which kernels have the same code,
where a thread's place comes from, which loads there are, where a fault can be put. Nothing reads the text.

Expressions are written as they read: `Name("start") + threads * 4`. Brackets come from precedence; `Group` sets those
that are for the reader.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, reduce
from itertools import count
from typing import Any, ClassVar, TypeVar, Union

ATOM, UNARY, PRODUCT, SUM, RELATION, EQUAL, BOTH, EITHER, TERNARY = 100, 90, 80, 70, 60, 55, 40, 30, 10
LEVELS = {"*": PRODUCT, "/": PRODUCT, "%": PRODUCT, "+": SUM, "-": SUM, "<": RELATION, ">": RELATION, "<=": RELATION}
LEVELS |= {">=": RELATION, "==": EQUAL, "!=": EQUAL, "&&": BOTH, "||": EITHER, "&": 49, "^": 48, "|": 47}


def _infix(sign: str, *, turned: bool = False) -> Callable[["Expression", "Some"], "Binary"]:
    def operate(left: "Expression", right: "Some") -> "Binary":
        return Binary(code(right), sign, left) if turned else Binary(left, sign, code(right))

    return operate


@dataclass(frozen=True)
class Expression:
    """A C++ expression. `==` compares trees; `equals` writes the operator."""

    printer: ClassVar[Callable[["Expression"], str]]

    @property
    def level(self) -> int:
        """The precedence."""
        return ATOM

    @cached_property
    def text(self) -> str:
        """As C++; `printing.py` has the rules, and sets them here."""
        return Expression.printer(self)

    def __str__(self) -> str:
        return self.text

    __add__, __sub__, __mul__ = _infix("+"), _infix("-"), _infix("*")
    __radd__, __rsub__, __rmul__ = _infix("+", turned=True), _infix("-", turned=True), _infix("*", turned=True)
    __truediv__, __mod__ = _infix("/"), _infix("%")
    __lt__, __le__, __gt__, __ge__ = _infix("<"), _infix("<="), _infix(">"), _infix(">=")
    equals = _infix("==")

    def __getitem__(self, place: "Some") -> "Element":
        return Element(self, code(place))

    def member(self, name: str) -> "Member":
        return Member(self, name)


Some = Union[Expression, str, int]  # noqa: UP007 - a name or a number, too


@dataclass(frozen=True)
class Name(Expression):
    """A variable, a tensor, a size, or what CUDA calls a thread's place."""

    name: str


@dataclass(frozen=True)
class Number(Expression):
    """A literal that is not negative: `37`, `0.5f`."""

    digits: str

    @property
    def value(self) -> int | None:
        """The integer that it is, if it is one."""
        return int(self.digits) if self.digits.isdigit() else None

    @property
    def whole(self) -> int:
        """The integer that a literal of type float is, as far as floats are exact; else 0."""
        head, point, tail = self.digits.partition(".0f")
        return int(head) if point and not tail and head.isdigit() and int(head) < 1 << 24 else 0


@dataclass(frozen=True)
class Constant(Expression):
    """A constant that has a name in C++: `true`, `INFINITY`."""

    name: str


@dataclass(frozen=True)
class Unary(Expression):
    sign: str
    operand: Expression

    @property
    def level(self) -> int:
        return UNARY


@dataclass(frozen=True)
class Binary(Expression):
    left: Expression
    sign: str
    right: Expression

    @property
    def level(self) -> int:
        return LEVELS[self.sign]


@dataclass(frozen=True)
class Group(Expression):
    """Brackets for the reader."""

    inner: Expression


@dataclass(frozen=True)
class Element(Expression):
    """`array[place]`."""

    array: Expression
    place: Expression


@dataclass(frozen=True)
class Member(Expression):
    value: Expression
    name: str


@dataclass(frozen=True)
class Apply(Expression):
    """A call: `function(arguments)`. A cast is one."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Method(Expression):
    """A call of what a value has: `tensor.size(0)`."""

    value: Expression
    function: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Choice(Expression):
    condition: Expression
    yes: Expression
    no: Expression

    @property
    def level(self) -> int:
        return TERNARY


@dataclass(frozen=True)
class Listed(Expression):
    """Several places between commas, as words about a kernel have them."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Braces(Expression):
    """A list: what an array starts from, a shape."""

    items: tuple[Expression, ...] = ()


def code(value: Some) -> Expression:
    """An expression from a name or a number."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, str):
        return Name(value)
    return Number(str(value)) if value >= 0 else Unary("-", Number(str(-value)))


def apply(function: str, *arguments: Some) -> Apply:
    return Apply(function, tuple(map(code, arguments)))


def every(*conditions: Expression) -> Expression:
    """All of the conditions."""
    return reduce(lambda left, right: Binary(left, "&&", right), conditions)


def product(*factors: Some) -> Expression:
    return reduce(lambda left, right: Binary(left, "*", right), map(code, factors))


def bracketed(value: Expression, level: int) -> Expression:
    """In brackets if it binds less than a level."""
    return Group(value) if value.level < level else value


def covering(extent: Expression, side: int) -> Expression:
    """How many pieces of a length cover an extent."""
    if isinstance(extent, Number) and extent.value is not None:
        return code(-(-extent.value // side))
    return (extent + (side - 1)) / side


BLOCK_X, BLOCK_Y, BLOCK_Z = Name("blockIdx.x"), Name("blockIdx.y"), Name("blockIdx.z")
THREAD_X, THREAD_Y = Name("threadIdx.x"), Name("threadIdx.y")
BLOCK_DIM_X, GRID_DIM_X = Name("blockDim.x"), Name("gridDim.x")


@dataclass(frozen=True)
class Statement:
    """A statement; `note` is a comment behind it."""


Body = tuple[Statement, ...]


@dataclass(frozen=True)
class Blank(Statement):
    """An empty line."""


@dataclass(frozen=True)
class Comment(Statement):
    """A comment on a line of its own."""

    text: str


@dataclass(frozen=True)
class Declare(Statement):
    """Variables of one type, each with its value. `prefix`: const, or a space in memory; `sizes`: of an array."""

    kind: str
    variables: tuple[tuple[Name, Expression | None], ...]
    prefix: str = "const "
    sizes: tuple[int | str, ...] = ()
    note: str = ""

    @property
    def name(self) -> str:
        return self.variables[0][0].name

    @property
    def value(self) -> Expression | None:
        return self.variables[0][1]


@dataclass(frozen=True)
class Construct(Statement):
    """A variable that a constructor makes: `const dim3 blocks(columns, rows);`."""

    kind: str
    name: Name
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Assign(Statement):
    """`apart`: the value stands on a line of its own."""

    target: Expression
    sign: str
    value: Expression
    apart: bool = False


@dataclass(frozen=True)
class Run(Statement):
    """A call for what it does."""

    call: Expression
    note: str = ""


@dataclass(frozen=True)
class Barrier(Statement):
    """All threads of a block, or of a warp, wait for each other."""

    note: str = ""
    function: str = "__syncthreads"


@dataclass(frozen=True)
class Jump(Statement):
    """`return` or `continue`."""

    word: str
    value: Expression | None = None


@dataclass(frozen=True)
class Guard(Statement):
    """An `if`. `short`: on one line."""

    condition: Expression
    body: Body
    otherwise: Body = ()
    short: bool = False
    note: str = ""


@dataclass(frozen=True)
class Loop(Statement):
    """A `for` that goes on by `step`, or without one by 1. `unroll`: a pragma in front of it."""

    kind: str
    variables: tuple[tuple[Name, Expression | None], ...]
    condition: Expression
    step: Expression | None
    body: Body
    unroll: str = ""
    short: bool = False

    @property
    def name(self) -> str:
        return self.variables[0][0].name

    @property
    def first(self) -> Expression:
        assert self.variables[0][1] is not None
        return self.variables[0][1]


@dataclass(frozen=True)
class Scope(Statement):
    """Statements in braces."""

    body: Body


@dataclass(frozen=True)
class Invoke(Statement):
    """A call of a host function for the tensors that it makes: `auto output = function(arguments);`. `returns`: the
    calling function returns them."""

    function: str
    arguments: tuple[Expression, ...]
    outputs: tuple[Name, ...] = ()
    returns: bool = False


@dataclass(frozen=True)
class Launch(Statement):
    """How the host launches a kernel.

    Attributes:
        setup: statements that define `blocks`, `threads` and what else the launch needs.
        kernel: its name, with its template's arguments.
        arguments: what it is given.
        aligned: the condition under which the instance for aligned rows is launched, of a kernel that has two.
        has_shared_bytes: shared memory is allocated at the launch.
        threads: of a block, as it stands in the launch: a variable, or in a function that launches it a number.
        stream: what the launch has for the stream.
    """

    setup: Body
    kernel: str
    arguments: tuple[Expression, ...]
    aligned: Expression | None = None
    has_shared_bytes: bool = False
    threads: str = "threads"
    stream: str = "stream"

    def grid(self, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        """How many blocks there are along each axis for given sizes; None where the device decides it."""
        return settle(self.setup, sizes).get("blocks")


@dataclass(frozen=True)
class Template(Statement):
    """Statements from a template: text with expressions and statements in it."""

    parts: tuple["str | Expression | Inserted", ...]


@dataclass(frozen=True)
class Inserted:
    """Statements that a template holds, on lines of their own at a depth."""

    body: Body
    depth: int


@dataclass(frozen=True)
class Parameter:
    """Of a function: `const float* __restrict__ x`."""

    kind: str
    name: Name


@dataclass(frozen=True)
class Lambda(Statement):
    """A function inside of a kernel that sees its variables."""

    name: Name
    parameters: tuple[Parameter, ...]
    body: Body
    note: str = ""


@dataclass(frozen=True)
class Function:
    """A function of the device or of the host, with what stands before its name, and its template's constants."""

    head: str
    name: Name
    parameters: tuple[Parameter, ...]
    body: Body
    template: tuple[str, ...] = ()
    printer: ClassVar[Callable[["Function"], str]]

    @cached_property
    def text(self) -> str:
        return Function.printer(self)


Node = Any  # an expression, a statement, a function, or a tuple of such
Tree = TypeVar("Tree")


_FIELDS: dict[type, tuple[str, ...] | None] = {}


def fields_of(node: object) -> tuple[str, ...] | None:
    """The fields of a node; None for plain values."""
    kind = type(node)
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(one.name for one in fields(kind)) if is_dataclass(kind) else None
    return _FIELDS[kind]


def walk(node: Node) -> Iterator[Any]:
    """All nodes of a tree in the order of its text, tuples and plain values aside."""
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, tuple):
            stack.extend(reversed(one))
        elif (names := fields_of(one)) is not None:
            yield one
            stack.extend([getattr(one, name) for name in reversed(names)])


def rebuild(node: Tree, change: Callable[[Any], Any]) -> Tree:
    """A tree with those nodes replaced for which `change` gives another one; what it gives is not looked into. For a
    statement it may give several, or none."""
    if isinstance(node, tuple):
        parts: list[Any] = []
        for part in node:
            new = rebuild(part, change)
            parts += new if isinstance(new, tuple) and isinstance(part, Statement) else (new,)
        return node if len(parts) == len(node) and all(map(_is, parts, node)) else tuple(parts)  # type: ignore[return-value]
    names = fields_of(node)
    if names is None:
        return node
    if (new := change(node)) is not None:
        return new  # type: ignore[no-any-return]
    parts_of = {name: getattr(node, name) for name in names}
    changed = {name: new for name, part in parts_of.items() if (new := rebuild(part, change)) is not part}
    return replace(node, **changed) if changed else node  # type: ignore[type-var]


def map_parts(node: Tree, change: Callable[[Any], Any]) -> Tree:
    """A node with something else for each of its parts, plain names and texts aside."""
    if isinstance(node, tuple):
        return tuple(map(change, node))  # type: ignore[return-value]
    parts = {name: getattr(node, name) for name in fields_of(node) or ()}
    changed = {name: change(part) for name, part in parts.items() if not isinstance(part, str)}
    return replace(node, **changed) if changed else node  # type: ignore[type-var]


def replace_at(tree: Tree, place: int, change: Callable[[Any], Any]) -> Tree:
    """A tree with one node replaced: the one of that number in the order of `walk`."""
    numbers = count()
    return rebuild(tree, lambda node: change(node) if next(numbers) == place else None)


def _is(one: Any, other: Any) -> bool:
    return one is other


def names_of(node: Node) -> frozenset[str]:
    """All names that stand in a tree."""
    return frozenset(one.name for one in walk(node) if isinstance(one, Name))


def declared_in(node: Node) -> frozenset[str]:
    """The names that a tree declares, parameters among them."""
    found: set[str] = set()
    for one in walk(node):
        if isinstance(one, (Declare, Loop)):
            found.update(name.name for name, _ in one.variables)
        elif isinstance(one, (Construct, Parameter, Function, Lambda)):
            found.add(one.name.name)
    return frozenset(found)


def evaluate(value: Any, known: Mapping[str, int]) -> int | None:
    """The integer that an expression is, as C++ computes it; None where something in it is not known."""
    match value:
        case Number():
            return value.value
        case Name(name):
            return known.get(name)
        case Constant(name):
            return {"true": 1, "false": 0}.get(name)
        case Group(inner) | Apply("static_cast<int>" | "static_cast<int64_t>" | "sizeof", (inner,)):
            return evaluate(inner, known)
        case Unary(sign, operand):
            one = evaluate(operand, known)
            return None if one is None else {"-": -one, "!": int(not one)}.get(sign)
        case Choice(condition, yes, no):
            holds = evaluate(condition, known)
            return None if holds is None else evaluate(yes if holds else no, known)
        case Apply(function, (first, second)) if function.rpartition("::")[2] in ("min", "max"):
            left, right = evaluate(first, known), evaluate(second, known)
            return None if left is None or right is None else (min if function.endswith("min") else max)(left, right)
        case Binary(first, sign, second):
            return _operate(evaluate(first, known), sign, evaluate(second, known))
    return None


def _quotient(left: int, right: int) -> int:
    """Rounded toward 0, as C++ divides."""
    return abs(left) // abs(right) * (1 if left * right >= 0 else -1)


_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "%": lambda left, right: left - _quotient(left, right) * right,
    "&&": lambda left, right: bool(left and right),
    "||": lambda left, right: bool(left or right),
}


def _operate(left: int | None, sign: str, right: int | None) -> int | None:
    if sign == "&&" and 0 in (left, right):
        return 0
    if sign == "||" and (left or right):
        return 1
    if left is None or right is None or (sign in "/%" and not right) or sign not in _OPERATIONS:
        return None
    return int(_OPERATIONS[sign](left, right))


def settle(setup: Iterable[Statement], known: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """What the host's statements make of sizes that are known: integers, and the sides of a `dim3`."""
    found: dict[str, int] = dict(known)
    sides: dict[str, tuple[int, ...]] = {}
    for one in setup:
        if isinstance(one, Declare) and one.value is not None:
            number = evaluate(one.value, found)
            found.pop(one.name, None)
            if number is not None:
                found[one.name], sides[one.name] = number, (number,)
        elif isinstance(one, Construct):
            numbers = [evaluate(side, found) for side in one.arguments]
            whole = tuple(number for number in numbers if number is not None)
            if len(whole) == len(numbers):
                sides[one.name.name] = whole
                found |= {f"{one.name.name}.{axis}": side for axis, side in zip("xyz", whole, strict=False)}
    return sides


def has_brackets(value: Expression) -> bool:
    """Whether an expression is written with brackets, those of calls included."""
    return any(
        isinstance(part, (Group, Apply, Method))
        or (isinstance(part, Binary) and min(part.left.level, part.right.level - (part.sign in "*/%+-")) < part.level)
        for part in walk(value)
    )


def of_kind(node: Node, kind: type[Tree]) -> Sequence[Tree]:
    return [one for one in walk(node) if isinstance(one, kind)]
