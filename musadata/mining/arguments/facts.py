"""What mined code says of its parameters: annotations, options, and the attributes and keys that are read from them."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from musadata.mining.arguments.annotations import Kind, read_annotation
from musadata.mining.arguments.options import Values, find_options

# Attributes of tensors and modules: what has one of these is no configuration.
ITERATING = ("zip", "enumerate", "reversed", "list", "tuple")
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
        lengths: constructors' parameters that are used as sequences -> the number of items that they need.
        called: constructors' parameters that are called -> the number of arguments.
    """

    options: Mapping[str, Values] = field(default_factory=dict)
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)
    called: Mapping[str, int] = field(default_factory=dict)

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
    lengths, called_parameters = _uses_in_constructors(tree)
    return Facts(
        find_options(source),
        {name: tuple(found) for name, found in attributes.items()},
        {name: tuple(found) for name, found in keys.items()},
        known.get("annotations", {}),
        known.get("defaults", {}),
        lengths,
        called_parameters,
    )


def _uses_in_constructors(tree: ast.Module) -> tuple[dict[str, int], dict[str, int]]:
    """Parameters of constructors that are used as sequences, with lengths, or called, with numbers of arguments."""
    lengths: dict[str, int] = {}
    called: dict[str, int] = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            names = {item.arg for item in function.args.args}
            for node in ast.walk(function):
                for name, length in _sequences(node):
                    if name in names:
                        lengths[name] = max(length, lengths.get(name, 0))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                    called[node.func.id] = max(len(node.args), called.get(node.func.id, 0))
    return lengths, called


def _sequences(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that a piece of code uses as sequences, and the number of items that it needs at least."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        yield getattr(node.value, "id", ""), len(node.targets[0].elts)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
        yield getattr(node.value, "id", ""), node.slice.value + 1
    elif isinstance(node, (ast.For, ast.comprehension)):
        iterated = (
            node.iter.args if isinstance(node.iter, ast.Call) and _last(node.iter.func) in ITERATING else [node.iter]
        )
        yield from ((getattr(item, "id", ""), 2) for item in iterated)
    elif isinstance(node, ast.Call) and _last(node.func) in ("len", *ITERATING):
        yield from ((getattr(item, "id", ""), 2) for item in node.args[:2])
    elif isinstance(node, ast.Starred):
        yield getattr(node.value, "id", ""), 2


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
