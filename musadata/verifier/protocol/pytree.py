"""The nesting of a forward's result: its tensors in order, and a plain description of everything around them."""

import dataclasses
from typing import Any

MAX_LEAVES = 256


class BadStructure(Exception):
    """A result that is neither tensors nor plain values in lists, tuples and dicts."""


def flatten(result: Any) -> tuple[Any, list[Any]]:
    """(description, tensors). The description is JSON; equal results have equal descriptions.

    Lists and tuples are not told apart, nor named tuples; dicts are, and dataclasses count as dicts.

    Raises:
        BadStructure: something that cannot be compared, or too much of it.
    """
    leaves: list[Any] = []
    return _flatten(result, leaves, 0), leaves


def _flatten(value: Any, leaves: list[Any], depth: int) -> Any:
    import torch

    if depth > 16 or len(leaves) > MAX_LEAVES:
        raise BadStructure("the result is nested too deeply or holds too many tensors")
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        return {"tensor": len(leaves) - 1}
    if value is None or isinstance(value, (bool, int, str)):
        return {"value": value}
    if isinstance(value, (float, complex)):
        return {"value": repr(value)}
    if isinstance(value, (list, tuple)):
        return {"list": [_flatten(item, leaves, depth + 1) for item in value]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {"dict": [[repr(key), _flatten(value[key], leaves, depth + 1)] for key in sorted(value, key=repr)]}
    raise BadStructure(f"the result holds a {type(value).__name__}")


def describe(structure: Any) -> str:
    """A structure in a few words, for people: `(tensor, [tensor, 3])`."""
    if "tensor" in structure:
        return "tensor"
    if "value" in structure:
        return str(structure["value"])[:40]
    if "list" in structure:
        items = structure["list"]
        return "(" + ", ".join(describe(item) for item in items[:8]) + (", …)" if len(items) > 8 else ")")
    return "{" + ", ".join(f"{key}: {describe(item)}" for key, item in structure["dict"][:8]) + "}"
