"""The imports of a reference that no reference may have."""

import ast
from functools import lru_cache

from musadata.mining.slicing.parsing import AVAILABLE


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
