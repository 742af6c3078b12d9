"""What an annotation says of a parameter's value."""

import ast
from dataclasses import dataclass
from typing import Any

from musadata.mining.reading.dotted_names import last_name

SEQUENCES = frozenset({"Sequence", "list", "List", "tuple", "Tuple", "Iterable", "Collection", "MutableSequence"})
CLASSES = frozenset({"type", "Type"})
NUMBERS = frozenset({"int", "float", "bool", "str"})


@dataclass(frozen=True)
class Kind:
    """The kinds of values that fit.

    Attributes:
        scalars: of "int", "float", "bool", "str", in the order of the annotation.
        length: of a sequence: 0 if none fits, -1 for any length.
        item: kind of a sequence's items, "" if unknown.
        values: those that a `Literal` lists.
        is_module, is_class, is_function, is_tensor: what else fits.
    """

    scalars: tuple[str, ...] = ()
    length: int = 0
    item: str = ""
    values: tuple[Any, ...] = ()
    is_module: bool = False
    is_class: bool = False
    is_function: bool = False
    is_tensor: bool = False

    @property
    def is_known(self) -> bool:
        return self != Kind()


def read_annotation(text: str) -> Kind:
    """The kind that an annotation's text means; nothing known for one that is not understood."""
    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
    except SyntaxError:
        return Kind()
    parts = [_one(item) for item in _alternatives(node)]
    sequence = next((item for item in parts if item.length), Kind())
    return Kind(
        tuple(dict.fromkeys(name for item in parts for name in item.scalars)),
        sequence.length,
        sequence.item,
        tuple(value for item in parts for value in item.values),
        any(item.is_module for item in parts),
        any(item.is_class for item in parts),
        any(item.is_function for item in parts),
        any(item.is_tensor for item in parts),
    )


def _alternatives(node: ast.expr) -> list[ast.expr]:
    """The parts of a union."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    if isinstance(node, ast.Subscript) and last_name(node.value) in ("Optional", "Union"):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return [part for item in items for part in _alternatives(item)]
    return [node]


def _one(node: ast.expr) -> Kind:
    name = last_name(node.value if isinstance(node, ast.Subscript) else node)
    inner = node.slice if isinstance(node, ast.Subscript) else None
    if name in NUMBERS:
        return Kind(scalars=(name,))
    if name == "Literal" and inner is not None:
        items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        return Kind(values=tuple(item.value for item in items if isinstance(item, ast.Constant)))
    if name in SEQUENCES:
        items = inner.elts if isinstance(inner, ast.Tuple) else [inner] if inner is not None else []
        fixed = name in ("tuple", "Tuple") and items and not isinstance(items[-1], ast.Constant)
        kinds = [last_name(item) for item in items[:1]]
        return Kind(length=len(items) if fixed else -1, item=kinds[0] if kinds and kinds[0] in NUMBERS else "")
    if name in CLASSES:
        return Kind(is_class=True)
    if name in ("Callable",):
        makes = inner is not None and "Module" in ast.unparse(inner)
        return Kind(is_class=makes, is_function=not makes)
    return Kind(is_module=name == "Module", is_tensor=name == "Tensor")
