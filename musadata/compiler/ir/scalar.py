"""What one thread computes: a directed acyclic graph of scalar operations over loads from buffers.

Nodes are compared by identity, so a value that is used twice is one node and is printed once. `+ - * / < >` make nodes;
the right side may be a plain number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, count
from pathlib import Path
from typing import Any

from musadata.compiler.ir.index_formulas import Index, Opaque, Variable, not_negative, of
from musadata.compiler.ir.lowering_errors import Unsupported

# Names that C++, its library and our device functions use.
RESERVED_NAMES = frozenset(Path(__file__).with_name("reserved_names.txt").read_text(encoding="utf-8").split())

# Functions of one argument that aten and CUDA's library call by the same name.
MATH_FUNCTIONS = (
    *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "erfinv", "lgamma"),
)


def free_name(taken: Collection[str], name: str, end: str = "") -> str:
    """The name, numbered from 2 where it is taken; with an end behind the number."""
    names = (f"{name}{number}{end}" for number in chain([""], count(2)))
    return next(one for one in names if one not in taken)


class Given:
    """A number that the host passes to kernels, because an attribute of the model holds it. Nothing is computed with it
    before: whatever tries makes a kernel for one value only, so it raises."""

    def __init__(self, name: str, *, is_integer: bool = False):
        self.name, self.is_integer = name, is_integer

    def _refuse(self, *_: object) -> Any:
        raise GivenUnsupported(self.name)

    __bool__ = __float__ = __int__ = __index__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = _refuse
    __rpow__ = __round__ = __floordiv__ = __mod__ = _refuse


class GivenUnsupported(Unsupported):
    """A formula needs the value of a `Given` or of a size; `name` is its name."""

    def __init__(self, name: str, text: str = ""):
        super().__init__(text or f"a formula of {name}")
        self.name = name


@dataclass(frozen=True, eq=False)
class Buffer:
    """A contiguous tensor in device memory. `role`: argument, state, temporary, or constant (which has `values`).
    `node` is the node of the graph that a temporary one holds a result of; `zeroed`: it starts with zeros;
    `alias`: the buffer whose memory it is, as an earlier step of the host has left it."""

    name: str
    shape: tuple[Index, ...]
    dtype: str
    role: str
    values: tuple[float | int | bool, ...] = ()
    node: str = ""
    zeroed: bool = False
    alias: Buffer | None = None


def _arithmetic(operation: str, dtype: str = "") -> Callable[[Scalar, Scalar | float], Scalar]:
    def operate(left: Scalar, right: Scalar | float) -> Scalar:
        if right == 1 and operation in ("mul", "div"):
            return left
        if operation == "add" and isinstance(left, Literal) and left.value == 0 and isinstance(right, Scalar):
            return right
        other = right if isinstance(right, Scalar) else literal(right, left.dtype)
        return Call(dtype or left.dtype, operation, (left, other))

    return operate


@dataclass(frozen=True, eq=False)
class Scalar:
    """A value of one thread. `dtype` is a compute type: bool, an integer type, float32 or float64."""

    dtype: str

    @cached_property
    def _parts(self) -> list[object]:
        """The values of all fields, and of tuples each item."""
        values = [getattr(self, name) for name in self.__dataclass_fields__]
        return [part for value in values for part in (value if isinstance(value, tuple) else (value,))]

    @cached_property
    def operands(self) -> tuple[Scalar, ...]:
        return tuple(part for part in self._parts if isinstance(part, Scalar))

    @cached_property
    def formulas(self) -> tuple[Index, ...]:
        return tuple(part for part in self._parts if isinstance(part, Index))

    __add__ = _arithmetic("add")
    __sub__ = _arithmetic("sub")
    __mul__ = _arithmetic("mul")
    __truediv__ = _arithmetic("div")
    __lt__ = _arithmetic("lt", "bool")
    __gt__ = _arithmetic("gt", "bool")

    @cached_property
    def variables(self) -> frozenset[Variable]:
        """Loop variables that the value depends on."""
        found = (*(formula.variables for formula in self.formulas), *(part.variables for part in self.operands))
        return frozenset[Variable]().union(*found)

    @cached_property
    def locals(self) -> frozenset[str]:
        """Names of results of earlier stages that the value depends on."""
        return frozenset(node.name for node in self.walk() if isinstance(node, Local))

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """Every load, once, in a fixed order."""
        return tuple(node for node in self.walk() if isinstance(node, Load))

    def walk(self, known: Collection[Scalar] = ()) -> Iterator[Scalar]:
        """This node and all below it, each once, scalars inside of index formulas included; without the nodes that
        are `known`, and what only they need."""
        seen = set(known)
        stack: list[Scalar] = [self]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            yield node
            stack.extend(reversed(node.children))

    @cached_property
    def children(self) -> tuple[Scalar, ...]:
        """Operands and the scalars inside of index formulas."""
        hidden = [atom.scalar for f in self.formulas for atom in f.atoms() if isinstance(atom, Opaque)]
        return (*self.operands, *hidden)


@dataclass(frozen=True, eq=False)
class Literal(Scalar):
    value: float | int | bool | Given


@dataclass(frozen=True, eq=False)
class Load(Scalar):
    """An element of a buffer; half types arrive as float32."""

    buffer: Buffer
    index: tuple[Index, ...]


@dataclass(frozen=True, eq=False)
class Call(Scalar):
    """An operation, by the name under which `emission.cpp` prints it."""

    operation: str
    arguments: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class Cast(Scalar):
    argument: Scalar


@dataclass(frozen=True, eq=False)
class Choose(Scalar):
    """`yes` where the condition holds, else `no`; only the chosen side is evaluated, so its loads are guarded."""

    condition: Scalar
    yes: Scalar
    no: Scalar


@dataclass(frozen=True, eq=False)
class Formula(Scalar):
    """An index formula as a value."""

    index: Index


@dataclass(frozen=True, eq=False)
class Compare(Scalar):
    """A comparison of two index formulas; `relation` is `<`, `<=`, `>=` or `==`."""

    relation: str
    left: Index
    right: Index


@dataclass(frozen=True, eq=False)
class Local(Scalar):
    """The result of an earlier stage of the same kernel."""

    name: str


@dataclass(frozen=True, eq=False)
class Added(Scalar):
    """A value that is added to the element at `index` of the buffer that it is stored to, among those of others."""

    value: Scalar
    index: tuple[Index, ...]


@dataclass(frozen=True, eq=False)
class Attended(Scalar):
    """A value weighted by the softmax of its score over all keys. `score` is a function of `Local("score")`, the sum of
    the products of `query` and `key` elements; with `safe`, a row without any finite score gives 0 instead of NaN."""

    query: Scalar
    key: Scalar
    score: Scalar
    element: Scalar
    safe: bool


@dataclass(frozen=True, eq=False)
class Among(Scalar):
    """A value that takes part in a reduction only where a condition holds."""

    condition: Scalar
    value: Scalar


@dataclass(frozen=True, eq=False)
class Named(Scalar):
    """A value that the graph has a name for, so that the kernel can use it."""

    name: str
    value: Scalar


def plain(value: Scalar) -> Scalar:
    """What a name stands for."""
    while isinstance(value, Named):
        value = value.value
    return value


def same(one: object, other: object) -> bool:
    """Whether two values are one formula, names aside."""
    if isinstance(one, Scalar) and isinstance(other, Scalar):
        one, other = plain(one), plain(other)
        if one is other or type(one) is not type(other):
            return one is other
        return all(same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one is other or one == other  # buffers are equal by identity only


def compute_type(dtype: str) -> str:
    """The type that a kernel computes in: half types go through float, small integers stay."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def literal(value: float | int | bool | Given, dtype: str) -> Literal:
    if isinstance(value, Given):
        if not dtype.startswith("float"):
            raise GivenUnsupported(value.name)
        return Literal(dtype, value)
    if dtype == "bool":
        return Literal(dtype, bool(value))
    return Literal(dtype, float(value) if dtype.startswith("float") else int(value))


def cast(value: Scalar, dtype: str) -> Scalar:
    if value.dtype == dtype:
        return value
    if isinstance(value, Literal):
        return literal(value.value, dtype)
    return Cast(dtype, value)


def call(operation: str, dtype: str, *arguments: Scalar) -> Call:
    return Call(dtype, operation, arguments)


def apply(operation: str, value: Scalar, *others: Scalar) -> Call:
    """A call whose result is of the type of its first argument."""
    return Call(value.dtype, operation, (value, *others))


def choose(condition: Scalar, yes: Scalar | float | Given, no: Scalar | float | Given) -> Choose:
    """`yes` where the condition holds, else `no`; one of the two may be a plain number."""
    dtype = next(side.dtype for side in (no, yes) if isinstance(side, Scalar))
    yes, no = (side if isinstance(side, Scalar) else literal(side, dtype) for side in (yes, no))
    return Choose(dtype, condition, yes, no)


def count_as(count: Index, dtype: str) -> Scalar:
    """An integer formula as a value of a type."""
    if count.constant is not None:
        return literal(count.constant, dtype)
    return cast(Formula("int64", count), dtype)


def is_never_negative(x: Scalar) -> bool:
    """Whether no value of it is below 0, by the operation that makes it."""
    match x:
        case Named():
            return is_never_negative(x.value)
        case Call(operation="mul", arguments=(one, other)):
            return one is other
        case Call():
            return x.operation in _NEVER_NEGATIVE
        case Choose(condition=Call(operation="lt", arguments=(one, Literal(value=0))), yes=Literal(value=0)):
            return one is x.no
    return False


_NEVER_NEGATIVE = frozenset({"abs", "exp", "exp2", "sigmoid", "sqrt"})


def opaque(value: Scalar) -> Index:
    """A computed integer as an atom of index formulas."""
    return of(Opaque(value, value.variables))


def inside_of(index: Index, size: Index) -> list[Compare]:
    """The comparisons that tell 0 <= index < size."""
    return [Compare("bool", ">=", index, index * 0), Compare("bool", "<", index, size)]


def within(index: Index, size: Index) -> list[Compare]:
    """The same, without those that can be proven."""
    low, high = inside_of(index, size)
    return [low] * (not not_negative(index)) + [high] * (not not_negative(size - index - 1))


def guarded(conditions: Sequence[Scalar], value: Scalar, otherwise: float | int | Given) -> Scalar:
    """`value` where all conditions hold, a constant elsewhere."""
    if not conditions:
        return value
    condition = reduce(lambda one, other: call("and", "bool", one, other), conditions)
    return choose(condition, value, otherwise)
