"""Long reductions with few results, split over blocks: a kernel for the parts, and one that joins what they leave."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from musadata.teacher.compiler.ir.index_formulas import Index, as_index, divide, product
from musadata.teacher.compiler.ir.program import Indices, Loop, Reduction, fixed
from musadata.teacher.compiler.ir.scalar import Buffer, Load, Scalar, guarded, within
from musadata.teacher.compiler.lowering.fusion import PARTS_AXIS, variables_of

SHARE = 8192  # elements of a part: 32 for each of 256 threads, and small inputs have several parts as well
FEW_RESULTS = 64  # with more, a block for each result keeps a GPU busy enough
LONG_ROW = 1 << 18  # elements: shorter rows take one block less time than a second launch
_IDENTITIES = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "fast_max": -math.inf, "min": math.inf}


def split_long_reductions(loops: Sequence[Loop], sizes: Mapping[str, int]) -> list[Loop]:
    """The loops, with two in place of each that reduces long rows to few results at these sizes."""
    return [part for loop in loops for part in (_split(loop) if _is_long(loop, sizes) else (loop,))]


def _is_long(loop: Loop, sizes: Mapping[str, int]) -> bool:
    if loop.reduction is None or loop.contraction is not None or loop.reduction.kind not in _IDENTITIES:
        return False
    axes, _ = variables_of(loop.names, loop.buffer.shape)
    extents = loop.reduction.extents(axes)
    if any(extent.variables for extent in extents) or not loop.buffer.dtype.startswith("float"):
        return False
    few = product(loop.buffer.shape).evaluate(sizes) <= FEW_RESULTS
    return few and product(extents).evaluate(sizes) >= LONG_ROW


def _split(loop: Loop) -> tuple[Loop, Loop]:
    assert loop.reduction is not None
    extents, buffer = loop.reduction.extents(variables_of(loop.names, loop.buffer.shape)[0]), loop.buffer
    total = product(extents)
    share = as_index(SHARE)
    parts = divide(total + (SHARE - 1), share)[0]
    shape = (*buffer.shape, parts)
    partial = Buffer(f"{buffer.name}_partial", shape, buffer.dtype, "temporary", node=buffer.node)
    kind = loop.reduction.kind

    def part(axes: Indices, inner: Indices) -> Scalar:
        place = axes[-1] * share + inner[0]
        value = loop.body(axes[:-1], _unflatten(place, extents))
        return guarded(within(place, total), value, _IDENTITIES[kind])

    def joined(axes: Indices, inner: Indices) -> Scalar:
        return Load(loop.buffer.dtype, partial, (*axes, *inner))

    first = Loop(partial, (*loop.names, "part"), part, Reduction(kind, fixed((share,)), ("k",)))
    return first, replace(loop, body=joined, reduction=Reduction(kind, fixed((parts,)), PARTS_AXIS))


def _unflatten(place: Index, extents: Indices) -> Indices:
    index: list[Index] = []
    for extent in reversed(extents[1:]):
        place, position = divide(place, extent)
        index.insert(0, position)
    return (place, *index)
