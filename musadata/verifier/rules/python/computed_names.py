"""The constant prefix of a name that is computed: enough to know that `f"weight_ih_l{layer}"` is a harmless name."""

import ast

_UNKNOWN = frozenset[str]()


class StringPrefixes:
    """The constant prefixes of one program's string expressions."""

    def __init__(self, tree: ast.AST):
        self._values = _loop_values(tree)

    def of(self, node: ast.expr) -> frozenset[str]:
        """All prefixes that the value of an expression may have; empty if they are unknown."""
        if isinstance(node, ast.Constant):
            return frozenset({node.value}) if isinstance(node.value, str) else _UNKNOWN
        if isinstance(node, ast.Name):
            return self._values.get(node.id, _UNKNOWN)
        if isinstance(node, ast.JoinedStr) and node.values:
            return self.of(node.values[0])
        if isinstance(node, ast.FormattedValue) and node.conversion == -1 and node.format_spec is None:
            return self.of(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.of(node.left)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return _until(node.left, "%")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            return _until(node.func.value, "{")
        return _UNKNOWN


def _until(template: ast.expr, mark: str) -> frozenset[str]:
    if isinstance(template, ast.Constant) and isinstance(template.value, str):
        return frozenset({template.value.partition(mark)[0]})
    return _UNKNOWN


def _loop_values(tree: ast.AST) -> dict[str, frozenset[str]]:
    """The values of names that are bound only by loops over constant strings."""
    found: dict[str, frozenset[str]] = {}
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.comprehension))]
    for loop in loops:
        if isinstance(loop.target, ast.Name) and isinstance(loop.iter, (ast.Tuple, ast.List)):
            values = [item.value if isinstance(item, ast.Constant) else None for item in loop.iter.elts]
            texts = frozenset(value for value in values if isinstance(value, str))
            known = len(texts) == len(set(values)) and loop.target.id not in found
            found[loop.target.id] = texts if known else _UNKNOWN
    targets = {id(loop.target) for loop in loops}
    for name in _bound_names(tree, targets):
        found.pop(name, None)
    return found


def _bound_names(tree: ast.AST, except_for: set[int]) -> set[str]:
    """Names that the program binds anywhere else than at the nodes with these ids."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and id(node) not in except_for:
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) or (isinstance(node, ast.ExceptHandler) and node.name):
            bound.add(str(node.name))
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            bound.update(node.names)
    return bound
