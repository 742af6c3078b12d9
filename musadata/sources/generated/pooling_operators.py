"""Operators that slide a window over images."""

import random
from typing import Any

from nnsmith.abstract.arith import nnsmith_div
from nnsmith.abstract.op import AvgPool2d as NNSmithAvgPool2d
from nnsmith.abstract.op import MaxPool2d as NNSmithMaxPool2d
from nnsmith.abstract.op import Pool2d as NNSmithPool2d
from nnsmith.abstract.tensor import AbsTensor
from nnsmith.error import ConstraintCheck

from musadata.sources.generated.spec import F32, Spec


class Pool2d(Spec, NNSmithPool2d):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        height, width = input_shapes[0].shape[2:]
        ConstraintCheck.ge(min(height, width), 4)
        kernel = random.choice([2, 2, 3, 3, 4])
        return [
            *NNSmithPool2d.requires(self, input_shapes),
            *self.equal(kernel_h_size=kernel, kernel_w_size=kernel, stride=random.choice([1, 2, kernel])),
            *self.equal(padding=random.choice([0, 0, kernel // 2])),
        ]

    def layer(self) -> str:
        padding = f", padding={self.padding}" if self.padding else ""
        return f"nn.{type(self).__name__}(kernel_size={self.kernel_h_size}, stride={self.stride}{padding})"


class MaxPool2d(Pool2d, NNSmithMaxPool2d):
    pass


class AvgPool2d(Pool2d, NNSmithAvgPool2d):
    pass


class AdaptiveAvgPool2d(Spec):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        sizes = [size for size in (1, 2, 3, 4, 5, 7) if size < min(input_shapes[0].shape[2:])]
        ConstraintCheck.ge(len(sizes), 1)
        return self.equal(size=random.choice(sizes))

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [AbsTensor([*input_shapes[0].shape[:2], self.size, self.size], F32)]


class MaxPool1d(Spec):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(input_shapes[0].shape[2], 8)
        return self.equal(kernel_size=random.choice([2, 3, 4]))

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        batch, channels, length = input_shapes[0].shape
        return [AbsTensor([batch, channels, nnsmith_div(length, self.kernel_size)], F32)]


class AvgPool1d(MaxPool1d):
    pass


POOLINGS: tuple[type[Spec], ...] = (MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, MaxPool1d, AvgPool1d)
