"""Operators that move elements without computing: transposes, slices, concatenation, padding."""

import random
from collections.abc import Sequence
from typing import Any

from nnsmith.abstract.op import Concat2 as NNSmithConcat2
from nnsmith.abstract.op import Transpose as NNSmithTranspose
from nnsmith.abstract.tensor import AbsTensor
from nnsmith.error import ConstraintCheck

from musadata.sources.generated.spec import F32, Fresh, Shape, Spec, elements


class Transpose(Spec, NNSmithTranspose):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        shape = input_shapes[0].shape
        constraints: list[Any] = NNSmithTranspose.requires(self, input_shapes)
        dim0, dim1 = self._init_swap_dims(shape)
        ConstraintCheck.gt(max(shape[dim0], shape[dim1]), 1)
        return constraints

    def expression(self, operands: Sequence[str]) -> str:
        dims = sorted((self.extra_attrs["dim0"], self.extra_attrs["dim1"]))
        return f"{operands[0]}.transpose({dims[0]}, {dims[1]})"


class Flatten(Spec):
    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        shape = input_shapes[0].shape
        return [AbsTensor([shape[0], elements(shape[1:])], F32)]


class Concat(Spec, NNSmithConcat2):
    in_dtypes = ((F32, F32),)

    def expression(self, operands: Sequence[str]) -> str:
        return f"torch.cat([{', '.join(operands)}], dim={self.extra_attrs['axis']})"

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        return (Fresh(first),)


class Slice(Spec):
    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        shape = input_shapes[0].shape
        axes = [axis for axis, size in enumerate(shape) if size >= 6]
        ConstraintCheck.ge(len(axes), 1)
        axis = self.extra_attrs.setdefault("axis", random.choice(axes))
        start, stop, step = random.choice(
            [(0, shape[axis] // 2, 1), (shape[axis] // 2, shape[axis], 1), (0, shape[axis], 2), (1, shape[axis] - 1, 1)]
        )
        self.extra_attrs["size"] = shape[axis]
        return self.equal(start=start, stop=stop, step=step)

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        shape = list(input_shapes[0].shape)
        length = self.stop - self.start + self.step - 1
        shape[self.extra_attrs["axis"]] = length // self.step if isinstance(length, int) else length / self.step
        return [AbsTensor(shape, F32)]

    def expression(self, operands: Sequence[str]) -> str:
        start = str(self.start) if self.start else ""
        stop = "" if self.stop == self.extra_attrs["size"] else str(self.stop)
        step = f":{self.step}" if self.step > 1 else ""
        return f"{operands[0]}[{':, ' * self.extra_attrs['axis']}{start}:{stop}{step}]"


class Pad(Spec):
    """Zeros, edge values or a mirror image around the last axis or the last two."""

    def requires(self, input_shapes: list[AbsTensor]) -> list[Any]:
        ConstraintCheck.ge(min(input_shapes[0].shape[2:]), 4)
        before, after = random.choice([(1, 1), (2, 2), (0, 1), (1, 2), (3, 0)])
        self.extra_attrs.setdefault("mode", random.choice(["constant", "constant", "replicate", "reflect"]))
        return self.equal(before=before, after=after)

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        shape = list(input_shapes[0].shape)
        for axis in range(2, len(shape)):
            shape[axis] = shape[axis] + self.before + self.after
        return [AbsTensor(shape, F32)]

    def expression(self, operands: Sequence[str]) -> str:
        pads = ", ".join([f"{self.before}, {self.after}"] * (len(self.input_shape()) - 2))
        mode = self.extra_attrs["mode"]
        return f"F.pad({operands[0]}, ({pads})" + ("" if mode == "constant" else f', mode="{mode}"') + ")"


LAYOUTS: tuple[type[Spec], ...] = (Transpose, Flatten, Concat, Slice, Pad)
