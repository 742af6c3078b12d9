"""Defaults of parameters as expressions."""

from typing import Any

import torch

PLAIN = (int, float, str, bool, type(None))


def default_text(value: Any) -> str | None:
    """The expression of a parameter's default, None if there is none."""
    if isinstance(value, PLAIN) or (
        isinstance(value, (tuple, list)) and all(isinstance(item, PLAIN) for item in value)
    ):
        return repr(value)
    if isinstance(value, dict) and all(isinstance(item, PLAIN) for pair in value.items() for item in pair):
        return repr(value)
    name = getattr(value, "__name__", "")
    for prefix, module in (("F", torch.nn.functional), ("nn", torch.nn), ("torch", torch)):
        if name and getattr(module, name, None) is value:
            return f"{prefix}.{name}"
    return None
