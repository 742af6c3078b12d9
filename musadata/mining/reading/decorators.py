"""Names that slicing knows, from `names.yaml`, and the decorators that are dropped from a reference."""

import ast
from pathlib import Path

import yaml

from musadata.mining.reading.dotted_names import last_name

NAMES: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("names.yaml").read_text(encoding="utf-8"))
MODULE_BASES = frozenset(NAMES["module_bases"])
DROPPED_DECORATORS = frozenset(NAMES["dropped_decorators"])


def is_kept(decorator: ast.expr) -> bool:
    """Whether a decorator may change what the code computes."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = last_name(target)
    return name not in DROPPED_DECORATORS and not name.startswith("register")
