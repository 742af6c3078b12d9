"""Values between which mined code chooses: the strings and numbers that it compares a name with, and keys of tables."""

import ast
from collections.abc import Iterator
from functools import lru_cache

Values = tuple[str | int, ...]


@lru_cache(maxsize=64)
def find_options(source: str) -> dict[str, Values]:
    """Names of parameters and attributes -> values that the code knows for them, in the order of the text."""
    tree = ast.parse(source)
    tables = {
        target.id: _constants(node.value.keys)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: dict[str, list[str | int]] = {}
    for node in ast.walk(tree):
        for name, values in _choices(node, tables):
            found.setdefault(name, []).extend(values)
    return {name: tuple(dict.fromkeys(values)) for name, values in found.items() if any(values)}


def _choices(node: ast.AST, tables: dict[str, Values]) -> Iterator[tuple[str, Values]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = node.comparators[0]
        values: Values = ()
        if isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            values = tuple(item for item in _constants([other]) if isinstance(item, str))
        elif isinstance(node.ops[0], (ast.In, ast.NotIn)):
            values = _members(other, tables)
        if values:
            yield _name(node.left), values
    elif isinstance(node, ast.Subscript):
        yield _name(node.slice), _members(node.value, tables)
    elif isinstance(node, ast.Match):
        patterns = [item.pattern for item in node.cases]
        yield _name(node.subject), _constants([item.value for item in patterns if isinstance(item, ast.MatchValue)])


def _members(node: ast.expr, tables: dict[str, Values]) -> Values:
    """The values in a container that the code shows."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return _constants(node.elts)
    if isinstance(node, ast.Dict):
        return _constants(node.keys)
    return tables.get(node.id, ()) if isinstance(node, ast.Name) else ()


def _constants(nodes: "list[ast.expr] | list[ast.expr | None]") -> Values:
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return tuple(item for item in values if isinstance(item, (str, int)) and item != "" and not isinstance(item, bool))


def _name(node: ast.expr) -> str:
    """The last part of a dotted name, through `.lower()` and the like; "" for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("lower", "upper"):
        node = node.func.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
