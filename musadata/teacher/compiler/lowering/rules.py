"""What the lowering rules share: the registry, an operator's arguments as values, and broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from musadata.teacher.compiler.ir.captured_graph import Node, Real, Reference, TensorType
from musadata.teacher.compiler.ir.index_formulas import ZERO, Index, as_index
from musadata.teacher.compiler.ir.lowering_errors import Unsupported
from musadata.teacher.compiler.ir.program import Indices, Program, Value
from musadata.teacher.compiler.ir.scalar import Formula, Scalar, call, cast, compute_type, literal

Results = Value | tuple[Value | None, ...]


@dataclass(frozen=True)
class Call:
    """One operator to lower: its node, and the values of all nodes before it."""

    node: Node
    values: Mapping[str, Results]
    program: Program

    @property
    def type(self) -> TensorType:
        """The (first) result's shape and dtype."""
        assert self.node.types[0] is not None
        return self.node.types[0]

    def has(self, name: str) -> bool:
        return self.node.arguments.get(name) is not None

    def value(self, name: str) -> Value:
        """A tensor argument."""
        return self.resolve(self.node.arguments[name])

    def optional(self, name: str) -> Value | None:
        return self.value(name) if self.has(name) else None

    def resolve(self, argument: Any) -> Value:
        found = self.values[argument.node]
        assert isinstance(found, Value)
        return found

    def list_of(self, name: str) -> tuple[Any, ...]:
        """A list argument as it is, references included; a bare value counts as a list of one."""
        items = self.node.arguments.get(name)
        if items is None:
            return ()
        return items if isinstance(items, tuple) else (items,)

    def sizes(self, name: str, count: int = 0) -> tuple[Index, ...]:
        """A list of sizes; a single one is repeated `count` times, as aten does."""
        items = tuple(as_index(item) for item in self.list_of(name))
        return items * count if len(items) == 1 and count > 1 else items

    def numbers(self, name: str, count: int = 0) -> tuple[int, ...]:
        """A list of plain integers; a size that varies is refused."""
        found = []
        for item in self.sizes(name, count):
            if item.constant is None:
                raise Unsupported(f"a varying {name} in {self.node.op}")
            found.append(item.constant)
        return tuple(found)

    def size(self, name: str) -> Index:
        return as_index(self.node.arguments[name])

    def number(self, name: str, default: float = 0) -> Any:
        """A plain number or bool; a size that varies is refused."""
        value = self.node.arguments.get(name)
        if value is None:
            return default
        if isinstance(value, Index):
            if value.constant is None:
                raise Unsupported(f"a varying {name} in {self.node.op}")
            return value.constant
        return value

    def dimension(self, name: str, rank: int, default: int = 0) -> int:
        """A dimension, counted from the front."""
        dim = int(self.number(name, default))
        return dim % rank if rank else 0

    def dimensions(self, name: str, rank: int) -> tuple[int, ...]:
        """Dimensions counted from the front and sorted; none at all means every one."""
        dims = self.numbers(name)
        return tuple(sorted({dim % rank for dim in dims})) if dims and rank else tuple(range(rank))

    def new(self, body: Callable[[Indices], Scalar], cost: int, *, viewed: Value | None = None) -> Value:
        """The (first) result as a value that is computed where it is needed."""
        return Value(self.node.name, self.type, body, cost, viewed=viewed)

    def scalar(self, argument: Any, index: Indices, shape: Indices, dtype: str) -> Scalar:
        """An argument's element at an index of the result: broadcast, and in the type that is computed in."""
        if isinstance(argument, Reference):
            value = self.resolve(argument)
            return cast(value.load(broadcast(index, value.shape)), dtype)
        if isinstance(argument, Index):
            return cast(Formula("int64", argument), dtype)
        return real(argument, dtype)


def real(argument: Any, dtype: str) -> Scalar:
    """A number, or a formula of sizes in floating point."""
    if not isinstance(argument, Real):
        return literal(argument, dtype)
    if argument.sign == "int":
        return cast(Formula("int64", argument.parts[0]), dtype)
    operation = {"+": "add", "*": "mul", "/": "div", "**": "pow"}[argument.sign]
    first, *others = (real(part, dtype) for part in argument.parts)
    for other in others:
        first = call(operation, dtype, first, other)
    return first


Rule = Callable[[Call], Results]
RULES: dict[str, Rule] = {}


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Registers the lowering of aten operators, by name without overload or by name and overload."""

    def register(function: Rule) -> Rule:
        for operator in operators:
            RULES[operator] = function
        return function

    return register


def broadcast(index: Indices, shape: Indices) -> Indices:
    """The index into a tensor of `shape` of the element that an index into a larger result reads."""
    aligned = index[len(index) - len(shape) :]
    return tuple(ZERO if size.constant == 1 else position for position, size in zip(aligned, shape, strict=True))


def cost_of(*values: Value | None) -> int:
    return sum(value.cost for value in values if value is not None)


_RANK = {"bool": 0, "uint8": 1, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float32": 5, "float64": 6}


def promote(*dtypes: str) -> str:
    """The type that tensors of these types are compared in."""
    return max((compute_type(dtype) for dtype in dtypes), key=lambda dtype: _RANK[dtype])
