"""Values written in code that name a class by a string: `dict(type="ResNet", depth=18)`, `{"type": "ResNet"}`."""

import ast
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from musadata.mining.reading.dotted_names import last_name

TYPE = "type"
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}
PLACE = re.compile(r"://|\.(pth|pt|ckpt|pkl|npz?|onnx)$")
UNKNOWN = object()  # the value of an expression that is none of plain values


def named_types(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The strings under the key `type` of dictionaries in code."""
    for item in (inner for node in nodes for inner in ast.walk(node)):
        given = entries(item).get(TYPE)
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            yield given.value


def entries(node: ast.AST) -> dict[str, ast.expr]:
    """The entries of a dictionary, or of a call of `dict`, with names as keys; {} for any other expression."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {
            key.value: value for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
    if isinstance(node, ast.Call) and is_dictionary(node):
        own = entries(node.args[0]) if len(node.args) == 1 else {}
        return own | {item.arg: item.value for item in node.keywords if item.arg}
    return {}


def plain_value(node: ast.expr, variables: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """The value of an expression of plain values; `UNKNOWN` for any other, which dictionaries leave out.

    `variables`: the values of names.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return variables.get(node.id, UNKNOWN)
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [plain_value(item, variables) for item in node.elts]
        known = not any(item is UNKNOWN for item in items)
        return UNKNOWN if not known else items if isinstance(node, ast.List) else tuple(items)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = plain_value(node.operand, variables)
        return -value if is_number(value) else UNKNOWN
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        left, right = plain_value(node.left, variables), plain_value(node.right, variables)
        if is_number(left) and is_number(right) and (right or not isinstance(node.op, ast.FloorDiv)):
            return ARITHMETIC[type(node.op)](left, right)
        return UNKNOWN
    if not is_dictionary(node):
        return UNKNOWN
    values = {name: plain_value(value, variables) for name, value in entries(node).items()}
    return {name: value for name, value in values.items() if value is not UNKNOWN and not _is_place(value)}


def is_dictionary(node: ast.expr) -> bool:
    """Whether an expression makes a dictionary: `{…}`, `dict(…)`, `EasyDict(…)`."""
    if isinstance(node, ast.Call):
        return last_name(node.func) == "dict" or last_name(node.func).endswith("Dict")
    return isinstance(node, ast.Dict)


def _is_place(value: Any) -> bool:
    """Whether a value is where trained weights lie: no reference has them."""
    return isinstance(value, str) and PLACE.search(value) is not None


def stated_values(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, Any]]:
    """The outermost dictionaries in straight-line code as plain values, with the name of each variable or keyword."""
    variables: dict[str, Any] = {}
    for statement in statements:
        value = getattr(statement, "value", None)
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        name = targets[0].id if isinstance(targets[0], ast.Name) else ""
        if isinstance(value, ast.expr):
            yield from _dictionaries(name, value, variables)
            if name:
                variables[name] = plain_value(value, variables)
        elif isinstance(statement, (ast.With, ast.For)):
            yield from stated_values(statement.body)


def _dictionaries(name: str, node: ast.expr, variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if entries(node):
        yield name, plain_value(node, variables)
        return
    named = {id(item.value): item.arg or "" for item in getattr(node, "keywords", ())}
    inner = [item.value if isinstance(item, ast.keyword) else item for item in ast.iter_child_nodes(node)]
    for item in inner:
        if isinstance(item, ast.expr):
            yield from _dictionaries(named.get(id(item), ""), item, variables)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def typed_within(value: Any) -> Iterator[dict[str, Any]]:
    """The dictionaries in a value that name a class, itself included."""
    if isinstance(value, dict):
        if isinstance(value.get(TYPE), str):
            yield value
        for item in value.values():
            yield from typed_within(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from typed_within(item)


def weight(value: Any) -> float:
    """The sum of all numbers in a value: a rough measure of the size of what it configures."""
    if isinstance(value, dict):
        return sum(map(weight, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(weight, value))
    return abs(value) if is_number(value) and value == value else 0


def scaled(value: Any, large: int, scale: int) -> Any:
    """A value with each whole number from `large` on divided by `scale`, if that leaves no rest."""
    if isinstance(value, dict):
        return {name: scaled(item, large, scale) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(scaled(item, large, scale) for item in value)
    return value // scale if type(value) is int and value >= large and value % scale == 0 else value
