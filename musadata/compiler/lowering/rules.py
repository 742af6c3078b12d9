"""What the lowering rules share: the registry, an operator's arguments as values, and broadcasting."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from musadata.compiler.ir.captured_graph import Node, Real, Reference, TensorType
from musadata.compiler.ir.index_formulas import ZERO, Index, Size, as_index
from musadata.compiler.ir.program import Indices, Program, Value
from musadata.compiler.ir.scalar import GivenUnsupported, Scalar, call, cast, compute_type, count_as, literal

Item = TypeVar("Item")
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

    @property
    def operator(self) -> str:
        """The operator without its overload: `max` for `max.dim`."""
        return self.node.op.split(".")[0]

    @property
    def dtype(self) -> str:
        """The type that the (first) result is computed in."""
        return compute_type(self.type.dtype)

    def has(self, name: str) -> bool:
        return self.node.arguments.get(name) is not None

    def value(self, name: str) -> Value:
        """A tensor argument."""
        return self.resolve(self.node.arguments[name])

    def optional(self, name: str) -> Value | None:
        return self.value(name) if self.has(name) else None

    def operand(self, name: str, most: int = 0) -> Value:
        """A tensor argument that is read many times: it is kept in memory if an element costs more than `most`."""
        value = self.value(name)
        if value.cost > most:
            self.program.materialize(value)
        return value

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

    def numbers(self, name: str) -> tuple[int, ...]:
        """A list of plain integers; a size that varies is refused."""
        return tuple(self._constant(name, item) for item in self.sizes(name))

    def size(self, name: str) -> Index:
        return as_index(self.node.arguments[name])

    def number(self, name: str, default: float = 0) -> Any:
        """A plain number or bool; a size that varies is refused."""
        value = self.node.arguments.get(name)
        if value is None:
            return default
        return self._constant(name, value) if isinstance(value, Index) else value

    def _constant(self, name: str, size: Index) -> int:
        if size.constant is None:
            sizes = [atom.name for atom in size.atoms() if isinstance(atom, Size)]
            raise GivenUnsupported(sizes[0] if sizes else "", f"a varying {name} in {self.node.op}")
        return size.constant

    def dimension(self, name: str, rank: int, default: int = 0) -> int:
        """A dimension, counted from the front."""
        dim = int(self.number(name, default))
        return dim % rank if rank else 0

    def dimensions(self, name: str, rank: int) -> tuple[int, ...]:
        """Dimensions counted from the front and sorted; none at all means every one."""
        dims = self.numbers(name)
        return tuple(sorted({dim % rank for dim in dims})) if dims and rank else tuple(range(rank))

    def split_parameters(self, formula: Callable[..., Scalar]) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Of a formula whose parameters have aten's names: those before the star, elements, and plain numbers for those
        behind it."""
        parameters = inspect.signature(formula).parameters.values()
        numbers = {one.name: self.number(one.name) for one in parameters if one.kind is one.KEYWORD_ONLY}
        return tuple(one.name for one in parameters if one.name not in numbers), numbers

    def new(self, body: Callable[[Indices], Scalar], cost: int, *, viewed: Value | None = None) -> Value:
        """The (first) result as a value that is computed where it is needed."""
        return Value(self.node.name, self.type, body, cost, viewed=viewed)

    def scalar(self, argument: Any, index: Indices, shape: Indices, dtype: str) -> Scalar:
        """An argument's element at an index of the result: broadcast, and in the type that is computed in."""
        if isinstance(argument, Reference):
            value = self.resolve(argument)
            return cast(value.load(broadcast(index, value.shape)), dtype)
        return count_as(argument, dtype) if isinstance(argument, Index) else real(argument, dtype)


def real(argument: Any, dtype: str) -> Scalar:
    """A number, or a formula of sizes in floating point."""
    return _computed(argument, dtype) if isinstance(argument, Real) else literal(argument, dtype)


@lru_cache(1024)  # equal ones are one node, so that it is computed once
def _computed(argument: Real, dtype: str) -> Scalar:
    if argument.sign == "int":
        return count_as(argument.parts[0], dtype)
    operation = {"+": "add", "*": "mul", "/": "div", "**": "pow"}[argument.sign]
    if argument.sign == "**" and argument.parts[1:] == (0.5,):
        return call("sqrt", dtype, real(argument.parts[0], dtype))
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


def replaced(index: Indices, dim: int, position: Index) -> Indices:
    """The index with another position along one dimension."""
    return (*index[:dim], position, *index[dim + 1 :])


def without(items: Sequence[Item], dims: Collection[int]) -> tuple[Item, ...]:
    """An index, a shape or names without some dimensions."""
    return tuple(item for dim, item in enumerate(items) if dim not in dims)


def cost_of(*values: Value | None) -> int:
    return sum(value.cost for value in values if value is not None)


_RANK = {"bool": 0, "uint8": 1, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float32": 5, "float64": 6}


def promote(*dtypes: str) -> str:
    """The type that tensors of these types are compared in."""
    return max((compute_type(dtype) for dtype in dtypes), key=lambda dtype: _RANK[dtype])
