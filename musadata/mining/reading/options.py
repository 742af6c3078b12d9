"""Values between which mined code chooses: the strings and numbers that it compares a name with, and keys of tables."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from musadata.mining.reading.handed_names import handed_names

Values = tuple[str | int, ...]
PAIR = (ast.List, ast.Tuple)


@lru_cache(maxsize=64)
def find_options(source: str) -> dict[str, Values]:
    """Names of parameters and attributes -> values that the code knows for them, in the order of the text.

    A name that is compared with nothing has the strings of the parameters that it is handed on to.
    """
    tree = ast.parse(source)
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    pairs = [(_name(target), node.value) for node in assigned for target in node.targets if _name(target)]
    tables = {name: _keys(value, {}) for name, value in pairs if _keys(value, {})}
    listed = {name: _members(value, {}) for name, value in pairs if _members(value, {})}
    found: dict[str, list[str | int]] = {}
    for node in ast.walk(tree):
        for name, values in _choices(node, tables, listed):
            found.setdefault(name, []).extend(values)
    own = {name: tuple(dict.fromkeys(values)) for name, values in found.items() if any(values)}
    for target, value in pairs:  # self._kind = str(kind)
        giver = _name(
            value.args[0] if isinstance(value, ast.Call) and _name(value.func) == "str" and value.args else value
        )
        if giver and target in own and giver not in own:
            own[giver] = own[target]
    handed: dict[str, Values] = {}
    for name, givers in handed_names(source).items():
        texts = tuple(item for item in own.get(name, ()) if isinstance(item, str))
        handed |= {giver: (*handed.get(giver, ()), *texts) for giver in givers if texts and giver not in own}
    return own | {name: tuple(dict.fromkeys(values)) for name, values in handed.items()}


def _choices(node: ast.AST, tables: dict[str, Values], listed: dict[str, Values]) -> Iterator[tuple[str, Values]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = node.comparators[0]
        values: Values = ()
        if isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            values = tuple(item for item in _constants([other]) if isinstance(item, str))
        elif isinstance(node.ops[0], (ast.In, ast.NotIn)):
            values = _members(other, listed)
        if values:
            yield _name(node.left), values
    elif isinstance(node, ast.Subscript):
        yield _name(node.slice), _keys(node.value, tables)
    elif isinstance(node, ast.Match):
        patterns = [item.pattern for item in node.cases]
        yield _name(node.subject), _constants([item.value for item in patterns if isinstance(item, ast.MatchValue)])


def _members(node: ast.expr, listed: dict[str, Values]) -> Values:
    """The values in a container that the code shows. `listed`: those of the containers that have names."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return _constants(node.elts)
    return _keys(node, listed)


def _keys(node: ast.expr, tables: dict[str, Values]) -> Values:
    """The keys of a table that the code shows. `tables`: those of the tables that have names."""
    if isinstance(node, ast.Dict):
        return _constants(node.keys)
    if isinstance(node, ast.Call) and _name(node.func) in ("ModuleDict", "dict", "OrderedDict") and node.args:
        inner = node.args[0]
        pairs = inner.elts if isinstance(inner, ast.List) else []
        return _constants([item.elts[0] for item in pairs if isinstance(item, PAIR) and item.elts]) or _keys(inner, {})
    return tables.get(_name(node), ()) if isinstance(node, (ast.Name, ast.Attribute)) else ()


def _constants(nodes: "list[ast.expr] | list[ast.expr | None]") -> Values:
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return tuple(item for item in values if isinstance(item, (str, int)) and item != "" and not isinstance(item, bool))


def _name(node: ast.expr) -> str:
    """The last part of a dotted name, through `.lower()` and the like; "" for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("lower", "upper"):
        node = node.func.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
