"""Tensors that a model keeps beside its parameters and buffers, and writes into.

Runs untrusted code: call inside the sandbox only.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.fx import GraphModule

from musadata.compiler.ir.lowering_errors import Unsupported


@contextmanager
def copied_attributes(model: torch.nn.Module) -> Iterator[None]:
    """Put copies in place of them while functionalization traces the model: it follows what is written into tensors
    that it has seen made, and refuses what is written into others."""
    held = list(_held(model))
    try:
        for module, name, value in held:
            setattr(module, name, torch.empty(value.shape, dtype=value.dtype).copy_(value))
        yield
    finally:
        for module, name, value in held:
            setattr(module, name, value)


def refuse_held_values(model: torch.nn.Module, traced: GraphModule) -> None:
    """Refuse results that depend on what a call finds in such a tensor: the next call finds other values."""
    found = {value.data_ptr() for _, _, value in _held(model)}
    constants = [getattr(traced, str(node.target)) for node in traced.graph.nodes if node.op == "get_attr"]
    if any(isinstance(one, torch.Tensor) and one.data_ptr() in found for one in constants):
        raise Unsupported("a state that each call changes")


def _held(model: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, str, torch.Tensor]]:
    """The modules with such tensors, and the names of these."""
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                yield module, name, value
