"""Concatenations that begin with all that an earlier one joins, as those of dense blocks do: they append to it.

An element then comes from one of two tensors, not from one of as many as there are layers, and all layers share their
kernels. It costs a copy of what was joined before.
"""

from collections.abc import Sequence
from dataclasses import replace

from musadata.compiler.ir.captured_graph import Node, Reference


def append_concatenations(nodes: Sequence[Node]) -> tuple[tuple[Node, ...], frozenset[str]]:
    """The nodes, in which a concatenation reads the longest earlier one that it begins with; and the names of those
    that append or are appended to, which must be stored for that."""
    found: list[Node] = []
    linked: set[str] = set()
    joins: list[Node] = []  # as they were
    for node in nodes:
        if not node.op.startswith("cat."):
            found.append(node)
            continue
        starts = [one for one in joins if _begins_with(node, one)]
        joins.append(node)
        if starts:
            longest = max(starts, key=lambda one: len(one.arguments["tensors"]))
            rest = node.arguments["tensors"][len(longest.arguments["tensors"]) :]
            node = replace(node, arguments={**node.arguments, "tensors": (Reference(longest.name), *rest)})
            linked |= {longest.name, node.name}
        found.append(node)
    return tuple(found), frozenset(linked)


def _begins_with(node: Node, earlier: Node) -> bool:
    """Whether a concatenation joins all that an earlier one does, and then more, along the same dimension."""
    kind, start = node.types[0], earlier.types[0]
    assert kind is not None and start is not None
    rank, whole, begun = len(kind.shape), node.arguments["tensors"], earlier.arguments["tensors"]
    if (rank, kind.dtype) != (len(start.shape), start.dtype) or not 1 < len(begun) < len(whole):
        return False
    dims = {one.arguments.get("dim", 0) % rank for one in (node, earlier)}
    return len(dims) == 1 and whole[: len(begun)] == begun
