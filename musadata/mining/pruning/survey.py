"""The decision sites of a reference, found in one walk over its syntax tree."""

import ast
from collections.abc import Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Methods and functions that change what they are given.
CHANGING = frozenset({"pop", "popitem", "setdefault", "append", "add", "remove", "update", "next", "discard", "insert"})
_LEAVES = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop)
_FLAGS = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.IfExp)


class Survey:
    """Sites are functions, loops, `try` and its handlers, tables, and conditions with their operands.

    Attributes:
        sites: in an order that only depends on the text.
        number: the place of each in `sites`, by id.
        functions: in the same order.
        around: functions and classes around a function, outermost first, by id.
        inside: the function around a site, by id.
        changes: names of attributes that a function writes to, or may, by id.
        deferred: ids of sites in a lambda, which may run at any time.
        choosing: ids of statements whose own expressions hold a conditional expression.
        texts: lines that begin inside a string literal, whose spaces matter.
        comparisons: those that are passed to some call, what is called, and the function around; a flag may depend on
            sizes by them.
        guards: the value of a condition, by id, with which a `raise` that it guards does not run.
    """

    def __init__(self, tree: ast.Module):
        self.sites: list[ast.AST] = []
        self.functions: list[Function] = []
        self.around: dict[int, tuple[ast.AST, ...]] = {}
        self.inside: dict[int, Function | None] = {}
        self.changes: dict[int, set[str]] = {}
        self.deferred: set[int] = set()
        self.choosing: set[int] = set()
        self.texts: set[int] = set()
        self.comparisons: list[tuple[ast.expr, ast.expr, Function | None]] = []
        self.guards: dict[int, bool] = {}
        self._lambdas = 0
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and is_table(statement):
                self._add(statement, None)
            self._walk(statement, statement, (), None)
        self.number = {id(node): number for number, node in enumerate(self.sites)}

    def _add(self, node: ast.AST, function: Function | None) -> None:
        self.sites.append(node)
        self.inside[id(node)] = function
        if self._lambdas:
            self.deferred.add(id(node))

    def table_names(self, number: int) -> list[str]:
        """What the table at a site is called."""
        node = self.sites[number]
        return defined_names(node) if isinstance(node, ast.stmt) else []

    def _walk(self, node: ast.AST, statement: ast.AST, around: tuple[ast.AST, ...], function: Function | None) -> None:
        kind = type(node)
        if kind is ast.Name or kind in _LEAVES:
            return
        if kind is ast.Constant or kind is ast.JoinedStr:
            if node.end_lineno != node.lineno:  # type: ignore[attr-defined]
                self.texts.update(range(node.lineno + 1, node.end_lineno + 1))  # type: ignore[attr-defined]
            return  # inside an f-string, positions are wrong before Python 3.12
        if kind in FUNCTIONS:
            self._add(node, function)
            self.functions.append(node)  # type: ignore[arg-type]
            self.around[id(node)] = around
            around, function = (*around, node), node  # type: ignore[assignment]
            self.changes[id(node)] = set()
        elif kind is ast.ClassDef:
            around = (*around, node)
        elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
            for test in operands(node.test):
                self._add(test, function)
            if isinstance(node, ast.If) and _raises(node.body) != _raises(node.orelse):
                self.guards[id(node.test)] = _raises(node.orelse)
            if kind is ast.IfExp:
                self.choosing.add(id(statement))
        elif kind in (ast.For, ast.Try, ast.ExceptHandler):
            self._add(node, function)
        elif isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
            self._note_change(node, around)
            if isinstance(node, ast.Call):
                self._note_comparisons(node, function)
        self._lambdas += kind is ast.Lambda
        for name in kind._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                for item in value:
                    if isinstance(item, ast.AST):
                        self._walk(item, item if isinstance(item, ast.stmt) else statement, around, function)
            elif isinstance(value, ast.AST):
                self._walk(value, statement, around, function)
        self._lambdas -= kind is ast.Lambda

    def _note_change(self, node: ast.Attribute | ast.Subscript | ast.Call, around: tuple[ast.AST, ...]) -> None:
        names: list[str] = []
        if isinstance(node, ast.Call):
            names = [item.value for item in node.args[:2] if isinstance(item, ast.Constant) and type(item.value) is str]
            method = node.func
            if (
                isinstance(method, ast.Attribute)
                and method.attr in CHANGING
                and isinstance(method.value, ast.Attribute)
            ):
                names.append(method.value.attr)
        elif not isinstance(node.ctx, ast.Load):
            target = node.value if isinstance(node, ast.Subscript) else node
            names = [target.attr] if isinstance(target, ast.Attribute) else []
        if names:
            for item in around:
                if isinstance(item, FUNCTIONS):
                    self.changes[id(item)].update(names)

    def _note_comparisons(self, node: ast.Call, function: Function | None) -> None:
        for value in (*node.args, *(item.value for item in node.keywords)):
            if isinstance(value, _FLAGS) and any(isinstance(item, ast.Compare) for item in _parts(value)):
                self.comparisons.append((value, node.func, function))


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


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    """A flag and its operands of `and`, `or`, `not` and `if`."""
    yield from operands(value)
    if isinstance(value, ast.IfExp):
        yield from (*_parts(value.body), *_parts(value.orelse))


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
