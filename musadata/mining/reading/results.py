"""What is in the result of a call: tensors and others in containers and objects, and how code reads each of them."""

from collections.abc import Iterator
from typing import Any

import torch

MAX_OBJECTS = 2  # one in another: a distribution's base


def parts(value: Any, place: str = "", objects: int = 0) -> Iterator[tuple[str, Any]]:
    """What is in nested tuples, lists, dictionaries and attributes of objects, each after the text that reads it.

    `[0]['mean']` reads the first item's entry of that name, and "" the value itself, if nothing is in it.
    """
    if isinstance(value, (list, tuple)):
        items = [(f"[{number}]", item) for number, item in enumerate(value)]
    elif isinstance(value, dict):
        items = [(f"[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (torch.Tensor, torch.nn.Module, type)) or objects == MAX_OBJECTS:
        items = []
    else:
        public = [(name, item) for name, item in getattr(value, "__dict__", {}).items() if not name.startswith("_")]
        items, objects = [(f".{name}", item) for name, item in public], objects + 1
    for text, item in items:
        yield from parts(item, place + text, objects)
    if not items:
        yield place, value


def tensors(value: Any) -> list[torch.Tensor]:
    return [item for _, item in parts(value) if isinstance(item, torch.Tensor)]
