"""The graph of aten operators that a reference computes, without shapes, and a hash of it.

The hash is the same for references that differ in names, layout of the text, shapes, nesting of submodules or the order
of independent statements; it differs where operators, axes or the flow of data differ.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

# Operators that only rename or copy a value.
_SILENT = frozenset({"detach", "alias", "clone", "contiguous", "lift_fresh", "lift_fresh_copy", "lift", "view_as"})
_SAME = {
    "_unsafe_view": "view",
    "reshape": "view",
    "_reshape_alias": "view",
    "unsqueeze": "view",
    "squeeze": "view",
    "flatten": "view",
    "t": "permute",
    "transpose": "permute",
    "unsafe_chunk": "split",
    "unsafe_split": "split",
    "split_with_sizes": "split",
    "chunk": "split",
}
_COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or", "bitwise_and"})
_AXES = frozenset({"dim", "dims", "dim0", "dim1"})  # arguments that count axes: kept, counted from the end
_KEPT = frozenset({"exponent", "reduction", "diagonal", "correction", "upper", "largest", "offset"})
_KEPT_SCALARS = {"elu": frozenset({"scale", "input_scale"}), "hardtanh": frozenset({"min_val", "max_val"})}
_RANKED = frozenset({"convolution"})  # one operator for 1, 2 and 3 dimensions
_SHAPED = frozenset({"view", "expand", "split", "repeat"})  # operators whose every number is a shape

Key = tuple[Any, ...]


@dataclass
class ValueGraph:
    """Values by number. Equal computations on equal operands are one value.

    A key is (operator, attributes, operands); inputs and state have no operands and are told apart by position.
    """

    keys: list[Key] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    _numbers: dict[Key, int] = field(default_factory=dict)

    def add(self, operator: str, attributes: Key = (), operands: Sequence[int] = ()) -> int:
        key = (operator, attributes, tuple(operands))
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return self._numbers[key]

    def add_leaf(self, role: str) -> int:
        self.keys.append((role, (), ()))
        return len(self.keys) - 1

    def fingerprint(self) -> str:
        """32 hex digits over all values that the outputs need, in an order that depends on the structure alone."""
        below = self._hash_below()
        above = self._hash_above(below)
        order: dict[int, int] = {}
        lines: list[str] = []
        for output in self.outputs:
            self._write(output, below, above, order, lines)
        lines.append("return " + " ".join(str(order[output]) for output in self.outputs))
        return _digest("\n".join(lines))

    def _hash_below(self) -> list[str]:
        """Per value a hash of how it is computed, with all inputs alike. Operands come before their readers."""
        hashes: list[str] = []
        for operator, attributes, operands in self.keys:
            inner = [hashes[operand] for operand in operands]
            hashes.append(_digest(repr((operator, attributes, sorted(inner) if operator in _COMMUTATIVE else inner))))
        return hashes

    def _hash_above(self, below: list[str]) -> list[str]:
        """Per value a hash of its uses, which distinguishes two inputs of the same operator."""
        uses: list[list[str]] = [[] for _ in self.keys]
        for place, output in enumerate(self.outputs):
            uses[output].append(f"output {place}")
        hashes = [""] * len(self.keys)
        for number in reversed(range(len(self.keys))):
            hashes[number] = _digest(repr(sorted(uses[number])))
            operator, _, operands = self.keys[number]
            if not uses[number]:
                continue  # unused
            for place, operand in enumerate(operands):
                where = "any" if operator in _COMMUTATIVE else place
                uses[operand].append(f"{below[number]} {hashes[number]} {where}")
        return hashes

    def _write(self, root: int, below: list[str], above: list[str], order: dict[int, int], lines: list[str]) -> None:
        """Number values in depth-first order from an output, without recursion."""
        pending = [(root, False)]
        while pending:
            number, ready = pending.pop()
            if number in order:
                continue
            operator, attributes, operands = self.keys[number]
            if operator in _COMMUTATIVE:
                operands = sorted(operands, key=lambda operand: (below[operand], above[operand]))
            if not ready:
                pending.append((number, True))
                pending.extend((operand, False) for operand in reversed(operands))
                continue
            order[number] = len(order)
            lines.append(f"{operator}{attributes!r} " + " ".join(str(order[operand]) for operand in operands))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def normal_name(schema_name: str) -> str:
    """ "aten::add_" and "aten::add" are both "add"; ways to say `view` are one."""
    name = schema_name.removeprefix("aten::")
    if name.endswith("_") and not name.endswith("__"):
        name = name[:-1]
    return _SAME.get(name, name)


def is_silent(name: str, arguments: Sequence[Any], result: Any) -> bool:
    """Whether an operator returns the values of its first operand unchanged."""
    first = arguments[0] if arguments and isinstance(arguments[0], torch.Tensor) else None
    if first is None or not isinstance(result, torch.Tensor):
        return False
    if name in _SILENT:
        return True
    if name in ("view", "expand"):
        return first.shape == result.shape
    return name == "_to_copy" and first.dtype == result.dtype


def attributes_of(name: str, schema: Any, arguments: Sequence[Any], named: dict[str, Any]) -> Key:
    """The arguments that determine the computation independently of shapes: axes, flags and modes."""
    if name in _SHAPED:
        return ()
    rank = next((value.dim() for value in arguments if isinstance(value, torch.Tensor)), 0)
    kept = [("rank", str(rank))] if name in _RANKED else []
    for position, argument in enumerate(schema.arguments):
        value = arguments[position] if position < len(arguments) else named.get(argument.name, argument.default_value)
        text = _attribute(argument.name, value, rank)
        if argument.name in _KEPT_SCALARS.get(name, ()):  # these tell operators apart: SELU is an ELU
            text = repr(float(value))
        if text is not None:
            kept.append((argument.name, text))
    return tuple(kept)


def _attribute(name: str, value: Any, rank: int) -> str | None:
    if isinstance(value, (bool, str, torch.dtype)):
        return str(value)
    if name == "groups":
        return "one" if value == 1 else "many"
    if name in _AXES:
        return _axes(value, rank)
    if name in _KEPT and isinstance(value, (int, float)):
        return repr(float(value))
    return None


def _axes(value: Any, rank: int) -> str | None:
    if isinstance(value, int):
        return str(value if value < 0 else value - rank)
    if isinstance(value, (list, tuple)) and all(isinstance(axis, int) for axis in value):
        return str([axis if axis < 0 else axis - rank for axis in value])
    return None


def order_of_axes(arguments: Sequence[Any]) -> tuple[int, ...]:
    """The order in which `t`, `transpose` or `permute` leaves the axes, counted from the end, without those in front
    that stay: (-1, -2) for `x.T`, `x.mT` and `x.permute(0, 2, 1)`.
    """
    rank = arguments[0].dim()
    axes = list(range(rank))
    if len(arguments) == 2:
        axes = [axis % rank for axis in arguments[1]]
    elif rank:
        first, second = arguments[1:] or (0, -1)
        axes[first], axes[second] = axes[second], axes[first]
    moved = next((place for place, axis in enumerate(axes) if place != axis), rank)
    return tuple(axis - rank for axis in axes[moved:])


def permuted(keys: Sequence[Key], value: int, axes: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The value whose axes are permuted, and how, where `value` may be permuted itself."""
    operator, attributes, operands = keys[value]
    if operator != "permute":
        return value, axes
    inner: tuple[int, ...] = attributes[0]
    count = max(len(axes), len(inner))
    outer, inner = (tuple(range(-count, -len(one))) + one for one in (axes, inner))
    both = [inner[axis] for axis in outer]
    moved = next((place for place, axis in enumerate(both) if axis != place - count), count)
    return operands[0], tuple(both[moved:])
