"""The imports of a reference that no reference may have."""

import ast
from functools import lru_cache

from musadata.mining.reading.parsing import AVAILABLE, IMPORTS


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
    forbidden = set(forbidden_imports(source))
    if not forbidden:
        return source
    lines = source.splitlines(keepends=True)
    names: list[str] = []
    for node in reversed([item for item in ast.parse(source).body if isinstance(item, IMPORTS)]):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        if forbidden.issuperset(modules):
            lines[node.lineno - 1 : node.end_lineno] = []
            names += [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    head, gap, body = "".join(lines).partition("\n\n\n")
    return f"{head}{gap}{' = '.join(sorted(names))} = None{gap}{body}"
