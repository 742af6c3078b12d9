"""What the classes of torch that a reference inherits from read of themselves."""

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from types import CodeType
from typing import Any

from torch import nn


class TorchBases:
    """The names by which a reference calls torch's classes, from its imports."""

    def __init__(self, tree: ast.Module):
        self._modules: dict[str, tuple[str, str]] = {}  # what a name stands for: a module, and a name in it
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self._modules |= {item.asname or item.name: (node.module, item.name) for item in node.names}
            elif isinstance(node, ast.Import):
                for item in node.names:
                    top = item.name.partition(".")[0]
                    self._modules[item.asname or top] = (item.name if item.asname else top, "")

    def attributes(self, base: ast.expr) -> frozenset[str] | None:
        """The attributes that a class of torch names in its own code; None for any other class."""
        name, *rest = ast.unparse(base).split(".")
        module, member = self._modules.get(name, ("", ""))
        if module.partition(".")[0] != "torch":
            return None
        try:
            value: Any = importlib.import_module(module)
            for part in [*filter(None, [member]), *rest]:
                value = getattr(value, part)
        except (ImportError, AttributeError):
            return None
        is_layer = isinstance(value, type) and issubclass(value, nn.Module)
        return _named(value) if is_layer else None


@cache
def _named(kind: type) -> frozenset[str]:
    found = set[str]()
    for owner in kind.__mro__:
        found.update(vars(owner).get("__constants__", ()))
        for value in vars(owner).values():
            code = getattr(getattr(value, "fget", value), "__code__", None)
            found.update(_names(code) if code is not None else ())
    return frozenset(found)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for value in code.co_consts:
        if isinstance(value, str):
            yield value
        elif isinstance(value, CodeType):
            yield from _names(value)
