"""What mined code says of its parameters: annotations, options, and the attributes and keys that are read from them."""

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from musadata.mining.arguments.annotations import Kind, read_annotation
from musadata.mining.arguments.options import Values, find_options

# Attributes of tensors and modules: what has one of these is no configuration.
OF_TENSORS_AND_MODULES = frozenset(
    {"shape", "dtype", "device", "ndim", "weight", "bias", "data", "T", "in_features", "out_features", "training"}
)


@dataclass(frozen=True)
class Facts:
    """Everything that is known of a module's parameters.

    Attributes:
        options: names -> values that the code compares them with.
        attributes: names -> attributes that are read from them and not called.
        keys: names -> string keys that are read from them.
        annotations: constructor's parameters -> their annotations.
        defaults: constructor's parameters -> attributes of their annotated class -> default values as expressions.
    """

    options: Mapping[str, Values] = field(default_factory=dict)
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def kind(self, parameter: inspect.Parameter) -> Kind:
        """What the parameter's annotation says."""
        text = self.annotations.get(parameter.name, "")
        if not text and parameter.annotation is not inspect.Parameter.empty:
            annotation = parameter.annotation
            text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
        return read_annotation(text) if text else Kind()

    def reads(self, name: str) -> tuple[str, ...]:
        """The attributes of a configuration; () for a name that holds something else."""
        found = self.attributes.get(name, ())
        return () if OF_TENSORS_AND_MODULES.intersection(found) else found


def find_facts(source: str, hints: Mapping[str, Any], owner: str) -> Facts:
    """The facts in a reference's text and in what slicing knows besides.

    Args:
        hints: see `musadata.mining.slicing.hints.constructor_hints`.
        owner: the class whose constructor is called.
    """
    attributes: dict[str, dict[str, None]] = {}
    keys: dict[str, dict[str, None]] = {}
    tree = ast.parse(source)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = _last(node.value)
            if name not in ("", "self") and id(node) not in called and not node.attr.startswith("__"):
                attributes.setdefault(name, {})[node.attr] = None
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if isinstance(key, str):
                keys.setdefault(_last(node.value), {})[key] = None
    known = hints.get(owner, {})
    return Facts(
        find_options(source),
        {name: tuple(found) for name, found in attributes.items()},
        {name: tuple(found) for name, found in keys.items()},
        known.get("annotations", {}),
        known.get("defaults", {}),
    )


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
