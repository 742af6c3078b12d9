"""The constant prefix of a name that is computed: enough to know that `f"weight_ih_l{layer}"` is a harmless name."""

import ast

_UNKNOWN = frozenset[str]()


class StringPrefixes:
    """The constant prefixes of one program's string expressions."""

    def __init__(self, tree: ast.AST):
        self._values = _loop_values(tree)

    def of(self, node: ast.expr) -> frozenset[str]:
        """All prefixes that the value of an expression may have; empty if they are unknown."""
        match node:
            case ast.Constant(str(text)):
                return frozenset({text})
            case ast.Name(name):
                return self._values.get(name, _UNKNOWN)
            case ast.JoinedStr([start, *_]) | ast.BinOp(start, ast.Add()):
                return self.of(start)
            case ast.FormattedValue(value, -1, None):
                return self.of(value)
            case ast.BinOp(template, ast.Mod()):
                return _until(template, "%")
            case ast.Call(ast.Attribute(template, "format")):
                return _until(template, "{")
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
        match node:
            case ast.Name(name, ast.Store() | ast.Del()) if id(node) not in except_for:
                bound.add(name)
            case ast.alias(name, asname):
                bound.add(asname or name.split(".")[0])
            case ast.Global(names) | ast.Nonlocal(names):
                bound.update(names)
            case ast.arg(str(name)) | ast.FunctionDef(str(name)) | ast.ClassDef(str(name)):
                bound.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(str(name)):
                bound.add(name)
    return bound
