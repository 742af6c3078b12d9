"""Top-level statements that change a name which another one binds: registrations, attributes that are set later."""

import ast
from collections.abc import Callable, Iterator

from musadata.mining.reading.dotted_names import dotted_name

# Methods that change what they are called on, if a function calls them on a global name.
CHANGING = frozenset({"append", "add", "update", "setdefault", "extend", "insert", "register", "__setitem__"})
UNREAD = frozenset({"__doc__", "__module__", "__name__", "__qualname__", "__all__"})
BLOCKS = ("body", "orelse", "finalbody", "handlers")


def changed_names(node: ast.stmt, find_function: Callable[[str], ast.FunctionDef | None]) -> frozenset[str]:
    """The names of its module that a top-level statement changes without binding them.

    Args:
        find_function: the function of a name, if its module defines one; calling it may change a table.
    """
    return frozenset(_changed(node, find_function))


def _changed(node: ast.stmt, find_function: Callable[[str], ast.FunctionDef | None]) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        for decorator in node.decorator_list:
            yield from _called(decorator, find_function)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield from _called(node.value, find_function)
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from _written(target)
    else:
        for name in BLOCKS:
            for child in getattr(node, name, ()):
                yield from _changed(child, find_function)


def _called(call: ast.expr, find_function: Callable[[str], ast.FunctionDef | None]) -> Iterator[str]:
    """What a call may change: the object whose method it is, or the tables that the function writes to."""
    function = call.func if isinstance(call, ast.Call) else call
    root, _, method = dotted_name(function).partition(".")
    if method:
        yield root
    elif root:
        definition = find_function(root)
        if definition is not None:
            yield from _tables(definition)


def _tables(function: ast.FunctionDef) -> Iterator[str]:
    """Global names that a function changes."""
    for node in ast.walk(function):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield from _written(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            yield dotted_name(node.func).partition(".")[0]
        elif isinstance(node, ast.Global):
            yield from node.names


def _written(target: ast.expr) -> Iterator[str]:
    """The object that an assignment to an attribute or an element changes."""
    if isinstance(target, ast.Attribute) and target.attr in UNREAD:
        return
    while isinstance(target, (ast.Attribute, ast.Subscript)):
        target = target.value
        if isinstance(target, ast.Name):
            yield target.id
