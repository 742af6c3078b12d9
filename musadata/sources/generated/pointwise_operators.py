"""Operators that act on each element on its own, alone or with a broadcast partner."""

import random

from nnsmith.abstract.op import BcastBinaryOp1

from musadata.sources.generated.spec import F32, Fresh, SameShape, Shape, Spec, listed


class Pointwise(SameShape):
    """One operand in, the same shape out."""


POINTWISE = listed(Pointwise)


class Binary(Spec, BcastBinaryOp1):
    """Two operands that broadcast; the second is often a new bias, scale or mask."""

    in_dtypes = ((F32, F32),)

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        return (Fresh(draw_partner(first)),)


def draw_partner(shape: Shape) -> Shape:
    """A shape that broadcasts to `shape`: the same, one vector, one value per channel, or one per row."""
    channel = tuple(size if axis == 1 else 1 for axis, size in enumerate(shape))
    patterns = [shape, shape, shape[-1:], (*shape[:-1], 1)]
    if len(shape) >= 3:
        patterns += [channel[1:], channel, shape[1:]]
    return random.choice(patterns)


BINARY = listed(Binary)
