"""How the elements of a traced tensor lie in memory."""

from collections.abc import Sequence
from math import prod

from musadata.records import TensorFact


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor of that shape."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def is_contiguous(fact: TensorFact) -> bool:
    """Whether elements follow each other in memory as in the flat order of the shape."""
    steps = zip(fact.shape, fact.stride, strides_of(fact.shape), strict=True)
    return all(size == 1 or step == usual for size, step, usual in steps)
