"""Operators that place or pick elements: by an index tensor, by order, by position."""

import random
from typing import Any

from nnsmith.abstract.tensor import AbsTensor
from nnsmith.error import ConstraintCheck

from musadata.sources.generated.reduction_operators import AlongAxis
from musadata.sources.generated.spec import F32, I64, Fresh, SameShape, Shape, Spec, listed


class ByIndex(Spec):
    """A value and a new index tensor."""

    in_dtypes = ((F32, I64),)

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(input_shapes[0].shape[0], 3)
        return []


class IndexSelect(ByIndex):
    """Rows by number, some of them more than once."""

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [AbsTensor([input_shapes[1].shape[0], *input_shapes[0].shape[1:]], F32)]

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        return (Fresh((random.choice([5, 8, 12, 20, 32]),), high=first[0]),)


class Embedding(ByIndex):
    """The value is the table."""

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [AbsTensor([*input_shapes[1].shape, input_shapes[0].shape[1]], F32)]

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        return (Fresh((random.choice([2, 3, 4, 8]), random.choice([7, 12, 16, 20])), high=first[0]),)


class Gather(ByIndex):
    """Per row its own choice of columns."""

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [AbsTensor(list(input_shapes[1].shape), F32)]

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        source, index = (tuple(tensor.shape) for tensor in input_shapes)
        ConstraintCheck.ge(source[-1], 4)
        ConstraintCheck.eq(source[:-1], index[:-1])
        return []

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        return (Fresh((*first[:-1], random.choice([4, 9, 16, first[-1]])), high=first[-1]),)


class ScatterAdd(ByIndex, SameShape):
    """Each element is added to the column that its index names."""

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(input_shapes[0].shape[-1], 4)
        ConstraintCheck.eq(tuple(input_shapes[0].shape), tuple(input_shapes[1].shape))
        return []

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        return (Fresh(first, high=first[-1]),)


class TopK(Spec):
    """The largest values of the last axis, in order."""

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(input_shapes[0].shape[-1], 8)
        return self.equal(k=random.choice([1, 2, 3, 4, 5, 8]))

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [AbsTensor([*input_shapes[0].shape[:-1], self.k], F32)]


class Rearrangement(AlongAxis):
    """The elements of one axis in another order."""


class Tril(SameShape):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(min(input_shapes[0].shape[-2:]), 3)
        return []


INDEXINGS: tuple[type[Spec], ...] = (IndexSelect, Embedding, Gather, ScatterAdd, TopK, *listed(Rearrangement), Tril)
