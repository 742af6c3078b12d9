"""The decision sites of a reference, found in one walk over its syntax tree."""

import ast
from collections.abc import Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Methods and functions that change what they are given.
CHANGING = frozenset({"pop", "popitem", "setdefault", "append", "add", "remove", "update", "next", "discard", "insert"})
_LEAVES = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop)


class Survey:
    """Sites are loops, tables, and conditions with their operands.

    Attributes:
        sites: in an order that only depends on the text.
        number: the place of each in `sites`, by id.
        texts: lines that begin inside a string literal, whose spaces matter.
        guards: the value of a condition, by id, with which a `raise` that it guards does not run.
    """

    def __init__(self, tree: ast.Module):
        self.sites: list[ast.AST] = []
        self.texts: set[int] = set()
        self.guards: dict[int, bool] = {}
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and is_table(statement):
                self.sites.append(statement)
            self._walk(statement)
        self.number = {id(node): number for number, node in enumerate(self.sites)}

    def _walk(self, node: ast.AST) -> None:
        kind = type(node)
        if kind is ast.Name or kind in _LEAVES:
            return
        if kind is ast.Constant or kind is ast.JoinedStr:
            if node.end_lineno != node.lineno:  # type: ignore[attr-defined]
                self.texts.update(range(node.lineno + 1, node.end_lineno + 1))  # type: ignore[attr-defined]
            return  # inside an f-string, positions are wrong before Python 3.12
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            self.sites += operands(node.test)
            if isinstance(node, ast.If) and _raises(node.body) != _raises(node.orelse):
                self.guards[id(node.test)] = _raises(node.orelse)
        elif isinstance(node, ast.For):
            self.sites.append(node)
        for child in ast.iter_child_nodes(node):
            self._walk(child)


def _raises(block: list[ast.stmt]) -> bool:
    """Whether a block does nothing but raise, after making what it raises."""
    made = all(isinstance(item, (ast.Assign, ast.Expr)) for item in block[:-1])
    return bool(block) and isinstance(block[-1], ast.Raise) and made


def operands(test: ast.expr) -> Iterator[ast.expr]:
    """A condition and its operands of `and`, `or` and `not`."""
    yield test
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from operands(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from operands(test.operand)


def is_table(node: ast.Assign) -> bool:
    """`name = {…}` or `name = dict(…)`, with several entries and keys that can be read."""
    if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        return False
    return len(entries(node.value)) > 1


def entries(value: ast.expr) -> list[tuple[object, ast.AST, ast.AST]]:
    """Key, first and last node of every entry of a table; [] if it is none."""
    if isinstance(value, ast.Dict) and all(isinstance(key, ast.Constant) for key in value.keys):
        pairs = zip(value.keys, value.values, strict=True)
        return [(key.value, key, item) for key, item in pairs if isinstance(key, ast.Constant)]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict":
        named = not value.args and all(item.arg for item in value.keywords)
        return [(item.arg, item, item) for item in value.keywords] if named else []
    return []


HARMLESS = frozenset(
    {"torch", "nn", "F", "np", "functools", "dataclass", "dataclasses", "contextmanager", "contextlib", "lru_cache"}
) | frozenset(
    {"cache", "wraps", "total_ordering", "abc", "enum", "unique", "typing", "runtime_checkable", "staticmethod"}
)


def _may_register(decorator: ast.expr) -> bool:
    """Whether a decorator may enter what it decorates into a table of the reference."""
    while isinstance(decorator, (ast.Call, ast.Attribute)):
        decorator = decorator.func if isinstance(decorator, ast.Call) else decorator.value
    return isinstance(decorator, ast.Name) and decorator.id not in HARMLESS


def defined_names(node: ast.stmt) -> list[str]:
    """The names that a top-level statement defines; [] for a statement that must stay."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return [] if any(map(_may_register, node.decorator_list)) else [node.name]
    if isinstance(node, ast.Assign) and all(isinstance(item, ast.Name) for item in node.targets):
        return [item.id for item in node.targets if isinstance(item, ast.Name)]
    return []
