"""Operators in which arithmetic dominates: matrix products, linear layers and convolutions."""

import random
from collections.abc import Sequence
from typing import Any

from nnsmith.abstract.arith import nnsmith_add, nnsmith_eq, nnsmith_mul, nnsmith_sub
from nnsmith.abstract.op import Conv1d as NNSmithConv1d
from nnsmith.abstract.op import MatMul as NNSmithMatMul
from nnsmith.abstract.op import NCHWConv2d as NNSmithConv2d
from nnsmith.abstract.tensor import AbsTensor
from nnsmith.error import ConstraintCheck

from musadata.sources.generated.spec import F32, MAX_WORK, Fresh, SameShape, Shape, Spec, draw_features, elements


class Linear(Spec):
    def __init__(self, *numbers: Any):
        super().__init__(*numbers)
        self.extra_attrs["bias"] = random.random() < 0.8

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        shape = input_shapes[0].shape
        ConstraintCheck.ge(shape[-1], 4)
        out_features = draw_features(MAX_WORK // elements(shape))
        return self.equal(in_features=shape[-1], out_features=out_features)

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [AbsTensor([*input_shapes[0].shape[:-1], self.out_features], F32)]

    def layer(self) -> str:
        tail = "" if self.extra_attrs["bias"] else ", bias=False"
        return f"nn.Linear({self.in_features}, {self.out_features}{tail})"

    def work(self) -> int:
        return elements(self.input_shape()) * self.out_features


class MatMul(Spec, NNSmithMatMul):
    in_dtypes = ((F32, F32),)

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        left, right = (tuple(tensor.shape) for tensor in input_shapes)
        ConstraintCheck.le(elements(left) * right[-1], MAX_WORK)
        ConstraintCheck.ge(left[-1], 3)
        return [nnsmith_eq(left[-1], right[-2]), *map(nnsmith_eq, left[:-2], right[:-2])]

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        columns = draw_features(max(1, MAX_WORK // elements(first)))
        batch = first[:-2] if random.random() < 0.4 else ()
        return (Fresh((*batch, first[-1], columns)),)

    def work(self) -> int:
        return elements(self.output_shape()) * self.input_shape()[-1]


class Conv1d(Spec, NNSmithConv1d):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        kernel, stride, padding, dilation = _draw_window()
        return [
            *NNSmithConv1d.requires(self, input_shapes),
            *self.equal(out_channels=_draw_channels(elements(input_shapes[0].shape) * kernel), kernel_size=kernel),
            *self.equal(stride=stride, padding=padding, dilation=dilation),
        ]

    def layer(self) -> str:
        numbers = [self.in_channels, self.out_channels]
        return f"nn.Conv1d({_arguments(numbers, self.kernel_size, self.stride, self.padding, self.dilation)})"

    def work(self) -> int:
        return elements(self.output_shape()) * self.in_channels * self.kernel_size


class Conv2d(Spec, NNSmithConv2d):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        kernel, stride, padding, dilation = _draw_window()
        width = kernel if random.random() < 0.85 else random.choice([1, 3, 5])
        work = elements(input_shapes[0].shape) * kernel * width
        return [
            *NNSmithConv2d.requires(self, input_shapes),
            *self.equal(out_channels=_draw_channels(work // stride**2), kernel_h_size=kernel, kernel_w_size=width),
            *self.equal(stride=stride, padding=padding, dilation_h=dilation, dilation_w=dilation),
        ]

    def layer(self) -> str:
        kernel = _pair(self.kernel_h_size, self.kernel_w_size)
        dilation = _pair(self.dilation_h, self.dilation_w)
        numbers = [self.in_channels, self.out_channels]
        return f"nn.Conv2d({_arguments(numbers, kernel, self.stride, self.padding, dilation)})"

    def work(self) -> int:
        return elements(self.output_shape()) * self.in_channels * self.kernel_h_size * self.kernel_w_size


def _draw_window() -> tuple[int, int, int, int]:
    """Kernel, stride, padding and dilation as convolutions in real models have them."""
    kernel = random.choice([1, 2, 3, 3, 3, 3, 4, 5, 7])
    stride = random.choice([1, 1, 1, 2])
    padding = random.choice([0, kernel // 2, kernel // 2])
    dilation = random.choice([1, 1, 1, 1, 2]) if kernel > 1 else 1
    return kernel, stride, padding, dilation


class DepthwiseConv2d(SameShape):
    """One small filter per channel."""

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        _, channels, height, width = input_shapes[0].shape
        ConstraintCheck.ge(min(height, width), 5)
        ConstraintCheck.ge(channels, 2)
        return self.equal(channels=channels, kernel_size=random.choice([3, 3, 5]))

    def layer(self) -> str:
        channels, kernel = self.channels, self.kernel_size
        return f"nn.Conv2d({channels}, {channels}, kernel_size={kernel}, padding={kernel // 2}, groups={channels})"

    def work(self) -> int:
        return elements(self.output_shape()) * self.kernel_size**2


class ConvTranspose2d(Spec):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        shape = input_shapes[0].shape
        kernel, stride = random.choice([(2, 2), (3, 1), (3, 2), (4, 2)])
        return [
            *self.equal(in_channels=shape[1], kernel_size=kernel, stride=stride),
            *self.equal(out_channels=_draw_channels(elements(shape) * kernel**2)),
        ]

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        batch, _, *space = input_shapes[0].shape
        sizes = [nnsmith_add(nnsmith_mul(size - 1, self.stride), self.kernel_size) for size in space]
        return [AbsTensor([batch, self.out_channels, *sizes], F32)]

    def work(self) -> int:
        return elements(self.input_shape()) * self.out_channels * self.kernel_size**2


class Conv3d(Spec):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        shape = input_shapes[0].shape
        kernel = random.choice([1, 2, 3, 3])
        ConstraintCheck.ge(min(shape[2:]), kernel + 1)
        out_channels = _draw_channels(elements(shape) * kernel**3)
        return self.equal(in_channels=shape[1], out_channels=out_channels, kernel_size=kernel)

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        batch, _, *space = input_shapes[0].shape
        sizes = [nnsmith_sub(size + 1, self.kernel_size) for size in space]
        return [AbsTensor([batch, self.out_channels, *sizes], F32)]

    def work(self) -> int:
        return elements(self.output_shape()) * self.in_channels * self.kernel_size**3


class Attention(Spec):
    """Scaled dot-product attention of a value to new keys and values, over heads where it has four axes."""

    in_dtypes = ((F32, F32, F32),)

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        query, key, value = (tuple(tensor.shape) for tensor in input_shapes)
        ConstraintCheck.eq(query[:-2], key[:-2])
        ConstraintCheck.le(elements(query) * key[-2], MAX_WORK)
        ConstraintCheck.ge(min(query[-2:]), 4)
        self.extra_attrs.setdefault("causal", key[-2] == query[-2] and random.random() < 0.3)
        return [nnsmith_eq(query[-1], key[-1]), nnsmith_eq(key[-2], value[-2])]

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [AbsTensor([*input_shapes[0].shape[:-1], input_shapes[2].shape[-1]], F32)]

    def expression(self, operands: Sequence[str]) -> str:
        causal = ", is_causal=True" if self.extra_attrs["causal"] else ""
        return f"F.scaled_dot_product_attention({', '.join(operands)}{causal})"

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        length = random.choice([first[-2], first[-2], 16, 24, 33, 48])
        key = (*first[:-2], length, first[-1])
        return (Fresh(key), Fresh(key))

    def work(self) -> int:
        return 2 * elements(self.input_shape()) * self.input_shape(1)[-2]


def _draw_channels(work: int) -> int:
    """A number of output channels, each of which takes so much work."""
    ConstraintCheck.ge(MAX_WORK // work, 8)
    return draw_features(MAX_WORK // work)


def _pair(height: int, width: int) -> int | tuple[int, int]:
    return height if height == width else (height, width)


def _arguments(channels: list[int], kernel: Any, stride: int, padding: int, dilation: Any) -> str:
    """Constructor arguments, defaults left out."""
    named = {"stride": (stride, 1), "padding": (padding, 0), "dilation": (dilation, 1)}
    shown = [f"{name}={value}" for name, (value, default) in named.items() if value != default]
    return ", ".join([*map(str, channels), f"kernel_size={kernel}", *shown])


CONTRACTIONS: tuple[type[Spec], ...] = (
    Linear, MatMul, Conv1d, Conv2d, DepthwiseConv2d, ConvTranspose2d, Conv3d, Attention
)  # fmt: skip
