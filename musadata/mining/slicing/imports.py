"""The imports of a reference that no reference may have, and what can do without them."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from musadata.mining.reading.parsing import AVAILABLE, IMPORTS, bound_names


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
