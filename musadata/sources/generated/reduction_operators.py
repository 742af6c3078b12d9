"""Operators that combine elements along an axis: reductions, softmax, scans and normalisations."""

import random
from collections.abc import Sequence
from typing import Any

from nnsmith.abstract.op import BatchNorm2d as NNSmithBatchNorm2d
from nnsmith.abstract.tensor import AbsTensor
from nnsmith.error import ConstraintCheck

from musadata.sources.generated.spec import F32, Fresh, SameShape, Shape, Spec, listed


class AlongAxis(SameShape):
    """One operand and one axis, which is drawn when the operand's rank is known."""

    def axis(self, shape: Sequence[int]) -> int:
        """The axis counted from the end; the last one in half of the cases, since models reduce features most."""
        if "axis" not in self.extra_attrs:
            axes = [axis for axis in range(-len(shape), 0) if shape[axis] >= 3]
            ConstraintCheck.ge(len(axes), 1)
            self.extra_attrs["axis"] = axes[-1] if random.random() < 0.5 else random.choice(axes)
        axis: int = self.extra_attrs["axis"]
        return axis

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        self.axis(input_shapes[0].shape)
        return []

    def expression(self, operands: Sequence[str]) -> str:
        axis = self.extra_attrs["axis"]
        # People count leading axes from the front and the last one from the end.
        return self.template.format(operands[0], axis if axis == -1 else axis + len(self.input_shape()))


class Reduction(AlongAxis):
    """The axis goes, or stays with one element."""

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        shape = list(input_shapes[0].shape)
        axis = self.axis(shape)
        if "keepdim" not in self.extra_attrs:
            self.extra_attrs["keepdim"] = random.random() < 0.5
        shape[axis : axis + 1 or None] = [1] if self.extra_attrs["keepdim"] else []
        return [AbsTensor(shape, F32)]

    def expression(self, operands: Sequence[str]) -> str:
        text = super().expression(operands)
        return text[:-1] + ", keepdim=True)" if self.extra_attrs["keepdim"] else text


class SoftmaxLike(AlongAxis):
    """A softmax, or its logarithm."""


class LayerNorm(SameShape):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(input_shapes[0].shape[-1], 4)
        return self.equal(features=input_shapes[0].shape[-1])


class GroupNorm(SameShape):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        channels = input_shapes[0].shape[1]
        ConstraintCheck.ge(channels, 4)
        groups = random.choice([count for count in (1, 2, 3, 4, 5, 8) if channels % count == 0 and count < channels])
        return self.equal(groups=groups, channels=channels)


class BatchNorm2d(Spec, NNSmithBatchNorm2d):
    """With the running statistics of a new module."""


class Loss(Spec):
    """One number that compares a value with a target."""

    in_dtypes = ((F32, F32),)

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.eq(tuple(input_shapes[0].shape), tuple(input_shapes[1].shape))
        return []

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [AbsTensor([], F32)]

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        return (Fresh(first),)


LOSSES = listed(Loss)
_SCAN, *_NORMS = listed(AlongAxis)
REDUCTIONS = (*listed(Reduction), *listed(SoftmaxLike), _SCAN, LayerNorm, GroupNorm, BatchNorm2d, *_NORMS)
