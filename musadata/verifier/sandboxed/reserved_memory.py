"""Inside the sandbox: a candidate's host code over tensors of any size, whose memory is reserved and never touched."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from musadata.dispatch import DispatchMode
from musadata.records import InputSpec
from musadata.tracing.inputs import draw

_FEW = 1 << 16  # elements that are computed, and drawn: sizes and offsets, which decide what is launched


class ReservedMemory(DispatchMode):
    """Operators of PyTorch on many elements do not compute: their results have the shape that they should have, and
    memory that is as the system gives it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.is_view or func.namespace != "aten":
            return func(*args, **kwargs)
        try:
            found = func(*tree_map(_on_meta, args), **tree_map(_on_meta, kwargs))
        except Exception:  # it depends on values, or is wrong: both shows where it computes
            return func(*args, **kwargs)
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        results = [one for one in tree_leaves(found) if isinstance(one, torch.Tensor)]
        if not results or max(one.numel() for one in (*given, *results)) <= _FEW:
            return func(*args, **kwargs)
        if func._schema.is_mutable:
            return kwargs.get("out", args[0] if args else None)
        device = kwargs.get("device") or next((one.device for one in given if one.dim()), torch.device("cpu"))
        return tree_map(lambda one: _reserve(one, device), found)


def draw_reserved(specs: Sequence[InputSpec], device: str) -> list[Any]:
    """Arguments of a forward: drawn where they are few elements, else reserved."""
    return [
        torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device=device)
        if math.prod(spec.shape) > _FEW
        else value.to(device)
        if isinstance(value := draw([spec], 0)[0], torch.Tensor)
        else value
        for spec in specs
    ]


def _on_meta(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("meta")
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")


def _reserve(value: Any, device: torch.device) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
