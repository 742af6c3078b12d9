"""The imports of a reference that no reference may have, and what can do without them."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from musadata.mining.reading.parsing import AVAILABLE, IMPORTS, bound_names

FUNCTIONS = (ast.FunctionDef, ast.Lambda)


@lru_cache(maxsize=8)
def forbidden_imports(source: str) -> tuple[str, ...]:
    """Modules outside of what references may import that the top level of a source imports, with their parents."""
    names: dict[str, None] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= dict.fromkeys([node.module])
    parts = [name.split(".") for name in names if name.split(".")[0] not in AVAILABLE]
    return tuple(dict.fromkeys(".".join(item[:depth]) for item in parts for depth in range(1, len(item) + 1)))


def without_imports(source: str) -> str:
    """A source in which None stands for what its forbidden imports bind; code that never runs may name it.

    The source begins with its imports, and two empty lines follow.
    """
    forbidden = frozenset(forbidden_imports(source))
    if not forbidden:
        return source
    lines = source.splitlines(keepends=True)
    for node in _importing(source, forbidden):
        lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    names = forbidden_names(source)
    head, gap, body = "".join(lines).partition("\n\n\n")
    return f"{head}{gap}{' = '.join(sorted(names))} = None{gap}{body}"


def forbidden_names(source: str) -> frozenset[str]:
    """The names that such imports bind."""
    found = _importing(source, frozenset(forbidden_imports(source)))
    return frozenset(name for node in found for name in bound_names(node))


def _importing(source: str, forbidden: frozenset[str]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.parse(source).body if forbidden else ():
        if isinstance(node, IMPORTS):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if forbidden.issuperset(modules):
                yield node


def without_absent_decorators(source: str) -> str:
    """The source without decorators that need a forbidden import: most of them check or record what a function gets.

    One that the source defines is dropped if it returns what the function returns. A function that is subscripted, as
    kernels are when they are launched, keeps its own.
    """
    forbidden = forbidden_names(source)
    if not forbidden:
        return source
    tree = ast.parse(source)
    defined = {name: node for node in tree.body for name in _bound(node)}
    subscripted = {ast.unparse(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    lines = source.splitlines(keepends=True)
    for node in ast.walk(tree):
        decorators = getattr(node, "decorator_list", ()) if getattr(node, "name", "") not in subscripted else ()
        for item in decorators:
            own = defined.get(_root(item))
            hands_on = own is None or (isinstance(own, ast.FunctionDef) and _hands_on(own))
            if hands_on and _reaches(item, defined, forbidden):
                lines[item.lineno - 1 : item.end_lineno] = [""] * ((item.end_lineno or item.lineno) - item.lineno + 1)
    return "".join(lines)


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Assign):
        yield from (item.id for item in node.targets if isinstance(item, ast.Name))
    elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _reaches(node: ast.AST, defined: dict[str, ast.stmt], forbidden: frozenset[str]) -> bool:
    """Whether code, or what it names, names one of these."""
    seen: set[str] = set()
    waiting = [node]
    while waiting:
        names = {item.id for item in ast.walk(waiting.pop()) if isinstance(item, ast.Name)} - seen
        if names & forbidden:
            return True
        seen |= names
        waiting += [defined[name] for name in names if name in defined]
    return False


def _hands_on(decorator: ast.FunctionDef) -> bool:
    """Whether what comes out of a function that it was given is returned as it is."""
    given = {item.arg for node in ast.walk(decorator) if isinstance(node, FUNCTIONS) for item in node.args.args}

    def is_result(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in given

    stored = [node for node in ast.walk(decorator) if isinstance(node, ast.Assign)]
    results = {ast.unparse(node.targets[0]) for node in stored if is_result(node.value)}
    if any(ast.unparse(node.targets[0]) in results and not is_result(node.value) for node in stored):
        return False
    returned = [node.value for node in ast.walk(decorator) if isinstance(node, ast.Return) and node.value is not None]
    others = [node for node in returned if not is_result(node) and ast.unparse(node) not in results]
    return not any(is_result(part) or ast.unparse(part) in results for node in others for part in ast.walk(node))
