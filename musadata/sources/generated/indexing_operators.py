"""Operators that place or pick elements: by an index tensor, by order, by position."""

import random
from typing import Any

from nnsmith.abstract.tensor import AbsTensor
from nnsmith.error import ConstraintCheck

from musadata.records import OperatorFamily
from musadata.sources.generated.reduction_operators import AlongAxis
from musadata.sources.generated.spec import F32, I64, Fresh, SameShape, Shape, Spec, listed


class ByIndex(Spec):
    """A value and a new index tensor."""

    family = OperatorFamily.INDEXING
    result = "picked"
    constant_names = ("index",)
    in_dtypes = ((F32, I64),)
    needs_fresh = True


class IndexSelect(ByIndex):
    """Rows by number, some of them more than once."""

    template = "torch.index_select({0}, 0, {1})"
    weight = 2.0
    ranks = ((2, 3), (1,))

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [AbsTensor([input_shapes[1].shape[0], *input_shapes[0].shape[1:]], F32)]

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(input_shapes[0].shape[0], 3)
        return []

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        return (Fresh((random.choice([5, 8, 12, 20, 32]),), high=first[0]),)


class Embedding(ByIndex):
    """The value is the table."""

    template = "F.embedding({1}, {0})"
    weight = 2.0
    result = "embedded"
    constant_names = ("tokens",)
    ranks = ((2,), (2,))

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [AbsTensor([*input_shapes[1].shape, input_shapes[0].shape[1]], F32)]

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(input_shapes[0].shape[0], 3)
        return []

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        return (Fresh((random.choice([2, 3, 4, 8]), random.choice([7, 12, 16, 20])), high=first[0]),)


class Gather(ByIndex):
    """Per row its own choice of columns."""

    template = "torch.gather({0}, -1, {1})"
    weight = 2.0
    ranks = ((2, 3), (2, 3))

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

    template = "torch.zeros_like({0}).scatter_add(-1, {1}, {0})"
    weight = 1.5
    result = "collected"
    ranks = ((2, 3), (2, 3))

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(input_shapes[0].shape[-1], 4)
        ConstraintCheck.eq(tuple(input_shapes[0].shape), tuple(input_shapes[1].shape))
        return []

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        return (Fresh(first, high=first[-1]),)


class TopK(Spec):
    """The largest values of the last axis, in order."""

    family = OperatorFamily.REDUCTION
    template = "torch.topk({0}, k={k}, dim=-1).values"
    result = "best"
    ranks = ((2, 3),)
    repeats = False
    number_names = ("k",)

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(input_shapes[0].shape[-1], 8)
        return self.equal(k=random.choice([1, 2, 3, 4, 5, 8]))

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [AbsTensor([*input_shapes[0].shape[:-1], self.k], F32)]


class Rearrangement(AlongAxis):
    family = OperatorFamily.INDEXING
    weight = 1.0
    ranks = ((2, 3, 4),)


class Tril(SameShape):
    family = OperatorFamily.INDEXING
    template = "torch.tril({0})"
    result = "lower"
    ranks = ((2, 3),)
    repeats = False

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(min(input_shapes[0].shape[-2:]), 3)
        return []


INDEXINGS: tuple[type[Spec], ...] = (IndexSelect, Embedding, Gather, ScatterAdd, TopK, *listed(Rearrangement), Tril)
