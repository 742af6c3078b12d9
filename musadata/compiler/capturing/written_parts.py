"""Reads of what was written in place, part by part.

Functionalization turns `part.add_(x)`, where `part` is a view of a tensor, into a copy of the whole tensor with that
part replaced; every later read is one of that copy. Here a read of exactly that part becomes the new value itself, and
a read of another part one of the tensor before it. A GRU cell is 4 kernels of 60 lines instead of 4 of 150.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

_LAST = 2**63 - 1
_READS = {torch.ops.aten.slice.Tensor: "slice", torch.ops.aten.select.int: "select"}
_WRITES = {torch.ops.aten.slice_scatter.default: "slice", torch.ops.aten.select_scatter.default: "select"}


@dataclass(frozen=True)
class _Part:
    """What a slice or a selection reads or writes of one dimension: the positions from `start` to before `end`."""

    kind: str
    dim: int
    start: int
    end: int

    def is_apart(self, other: "_Part") -> bool:
        return self.dim == other.dim and (self.end <= other.start or other.end <= self.start)


def read_written_parts(traced: GraphModule) -> None:
    """Let slices and selections read the values that were written there, where positions are numbers; and what reads a
    tensor that was overwritten as a whole the values that it got."""
    for node in list(traced.graph.nodes):
        if node.target is torch.ops.aten.copy.default and _kind(node.args[0]) == _kind(node.args[1]):
            node.replace_all_uses_with(node.args[1])
            continue
        part = _part(node, _READS, 1)
        if part is None:
            continue
        base = node.args[0]
        while (written := _part(base, _WRITES, 2)) is not None and written.is_apart(part):
            base = base.args[0]
        if written == part:
            node.replace_all_uses_with(base.args[1])
        elif base is not node.args[0]:
            node.update_arg(0, base)
    traced.graph.eliminate_dead_code()


def _kind(node: Node) -> tuple[Any, ...]:
    """A tensor's type and sizes."""
    value = node.meta["val"]
    return value.dtype, *map(str, value.shape)


def _part(node: Any, operators: dict[Any, str], first: int) -> _Part | None:
    """The part that a node reads or writes; None for other nodes, steps, and positions that sizes decide. Its dimension
    and positions are the arguments from `first` on."""
    kind = operators.get(node.target) if isinstance(node, Node) else None
    if kind is None or node.kwargs:
        return None
    given = node.args[first:]
    shape = node.args[0].meta["val"].shape
    dim, *places = [*given, *(0, None, None, 1)[len(given) :]] if kind == "slice" else given
    if kind == "slice":
        start, end, step = (places[0] or 0, _LAST if places[1] is None else places[1], places[2])
    else:
        start, end, step = places[0], 0, 1
    if step != 1 or not all(isinstance(place, int) for place in (start, end)):
        return None
    if start < 0 or end < 0:
        if not isinstance(shape[dim], int):
            return None
        start, end = (place + shape[dim] if place < 0 else place for place in (start, end))
    return _Part(kind, dim % len(shape), start, end if kind == "slice" else start + 1)
