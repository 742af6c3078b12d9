"""Predicting from a candidate's text what it will compile, so that compiling starts before its process does.

Nothing is executed and nothing is decided here: sources that are not found are compiled when the candidate asks, and
sources that are wrongly found only cost a compilation. Arguments of `load_inline` are read if they are literals, names
of module-level literals, or sums, lists and dicts of them.
"""

import ast
import inspect
from typing import Any

from musadata.syntax import parse
from musadata.verifier.compilation.sources import CandidateSources, from_load_inline

_PARAMETERS = inspect.signature(from_load_inline).parameters
_Values = dict[str, Any]  # of names at module level


class _Unknown(Exception):
    """A value that is known at run time only."""


def predict_sources(source: str) -> list[CandidateSources]:
    """The sources of every `load_inline` call whose arguments can be read."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    values = _module_values(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_load_inline(node.func):
            try:
                found.append(_read_call(node, values))
            except (_Unknown, TypeError, ValueError):
                continue
    return found


def _module_values(tree: ast.Module) -> _Values:
    values: _Values = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            try:
                values[name] = _value(node.value, values)
            except _Unknown:
                values.pop(name, None)
    return values


def _is_load_inline(function: ast.expr) -> bool:
    return getattr(function, "attr", getattr(function, "id", "")) == "load_inline"


def _read_call(call: ast.Call, values: _Values) -> CandidateSources:
    if any(keyword.arg is None for keyword in call.keywords):
        raise _Unknown
    given = [_value(argument, values) for argument in call.args]
    named: Any = {word.arg: _value(word.value, values) for word in call.keywords if word.arg in _PARAMETERS}
    return from_load_inline(*given, **named)


def _value(node: ast.expr, values: _Values) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(item, values) for item in node.elts]
    if isinstance(node, ast.Dict) and all(node.keys):
        return {
            _value(key, values): _value(item, values)
            for key, item in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _value(node.left, values), _value(node.right, values)
        if type(left) is type(right) and isinstance(left, (str, list)):
            return left + right  # type: ignore[operator]
    raise _Unknown
