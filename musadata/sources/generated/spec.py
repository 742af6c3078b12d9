"""The specification of an operator: NNSmith's constraints on shapes, and its Python expression.

A spec is an NNSmith operator (`AbsOpBase`) narrowed to float32 and to sizes that occur in real models. NNSmith's own
`auto_opset` is not used: it executes every operator, keeps the answer in the user's cache and lists dtypes in hash
order, so that a seed alone would not reproduce a graph.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml
from nnsmith.abstract.arith import nnsmith_eq
from nnsmith.abstract.dtype import DType
from nnsmith.abstract.op import AbsOpBase, UnaryOpBase, mark_abstract
from nnsmith.abstract.tensor import AbsTensor

from musadata.records import OperatorFamily

F32 = DType.float32
I64 = DType.int64

MAX_WORK = 1 << 21  # multiply-adds of one operator: a CPU emulates about 1e7 of them per second and core
_LISTED: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
    Path(__file__).with_name("operators.yaml").read_text(encoding="utf-8")
)
_ATTRIBUTES = {name: members for listed in _LISTED.values() for name, members in listed.items()}
Shape = tuple[int, ...]
Range = tuple[float, float]


@dataclass(frozen=True)
class Fresh:
    """A new input for an operator. Indices are integers in [0, high)."""

    shape: Shape
    high: int = 0

    @property
    def dtype(self) -> DType:
        return I64 if self.high else F32


@mark_abstract("musadata")
class Spec(AbsOpBase):
    """An operator of the generator. `operators.yaml` gives each class its attributes.

    Attributes:
        family: its operator family.
        weight: how often it is drawn, relative to the others of its family.
        template: the Python expression, operands by position, attributes by name; "" for a layer.
        layer_template: the constructor call of its `nn.Module`, attributes by name; "" for an operator without layer.
        result: variable name for its value.
        layer_name: attribute name for its `nn.Module`, if it is one.
        repeats: whether it may follow itself directly.
        constant_names: names for new operands, from the second operand on; the last name is used for all that follow.
        bounds: the range of its result.
        identity_within: the range in which it is the identity, if any: for a ReLU from 0.
        number_names: attributes that the solver determines, in the order of the constructor's arguments.
        needs_fresh: whether all operands but the first must be new: indices, targets.
    """

    family: ClassVar[OperatorFamily]
    weight: ClassVar[float] = 1.0
    template: ClassVar[str] = ""
    layer_template: ClassVar[str] = ""
    result: ClassVar[str] = "x"
    layer_name: ClassVar[str] = ""
    repeats: ClassVar[bool] = True
    constant_names: ClassVar[tuple[str, ...]] = ("constant",)
    bounds: ClassVar[Range] = (-math.inf, math.inf)
    identity_within: ClassVar[Range | None] = None
    needs_fresh: ClassVar[bool] = False
    number_names: ClassVar[tuple[str, ...]] = ()
    num_var_param = (0,)  # NNSmith: the constructor takes a list of numbers, `numbers`

    in_dtypes: tuple[tuple[DType, ...], ...] = ((F32,),)
    out_dtypes: tuple[tuple[DType, ...], ...] = ((F32,),)
    ranks: ClassVar[tuple[tuple[int, ...], ...]] = ((1, 2, 3, 4, 5),)

    def __init_subclass__(cls) -> None:
        for name, value in _ATTRIBUTES.get(cls.__name__, {}).items():
            setattr(cls, name, OperatorFamily(value) if name == "family" else value)

    def __init__(self, *numbers: Any) -> None:
        super().__init__(*(numbers if isinstance(self, UnaryOpBase) else ()))  # NNSmith's own operators take them
        self.__dict__.update(zip(self.number_names, numbers, strict=True))
        self.inp_ranks = [tuple(ranks) for ranks in self.ranks]
        self.out_ranks = [(0, 1, 2, 3, 4, 5)]

    @classmethod
    def get_num_var_param(cls) -> int:
        return len(cls.number_names)

    @property
    def numbers(self) -> list[Any]:
        """The constructor's arguments, which NNSmith replaces by the solver's numbers."""
        return [getattr(self, name) for name in self.number_names]

    def deduct_inp_ranks_and_dtype(self, out_abs_tensor: list[AbsTensor]) -> list[tuple[int, DType]]:
        """NNSmith's backward insertion: operands of the output's rank."""
        return [(out_abs_tensor[0].ndims, dtype) for dtype in self.in_dtypes[0]]

    def is_identity_after(self, other: "Spec") -> bool:
        """Whether it would be the identity on the other operator's result."""
        if self.identity_within is None:
            return False
        return self.identity_within[0] <= other.bounds[0] and other.bounds[1] <= self.identity_within[1]

    def layer(self) -> str:
        """The constructor call of its `nn.Module`; empty for an operator that has no layer."""
        return self.layer_template.format_map(vars(self))

    def expression(self, operands: Sequence[str]) -> str:
        """The Python expression; a layer's own attribute is the first operand."""
        if self.template:
            return self.template.format(*operands, **vars(self))
        return f"{operands[0]}({', '.join(operands[1:])})"

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        """New inputs for the second and later operands; none if they must come from the graph."""
        return ()

    def work(self) -> int:
        """Multiply-adds of the concrete operator."""
        return 0

    def equal(self, **values: Any) -> list[Any]:
        """Constraints that give numbers of the constructor these values."""
        return [nnsmith_eq(getattr(self, name), value) for name, value in values.items()]

    def input_shape(self, index: int = 0) -> Shape:
        return tuple(self.input_like[index].shape)

    def output_shape(self) -> Shape:
        return tuple(self.output_like[0].shape)


class SameShape(Spec):
    """An operator whose result has the shape of its first operand."""

    def type_transfer(self, input_shapes: list[AbsTensor]) -> list[AbsTensor]:
        return [input_shapes[0]]


def listed(base: type[Spec]) -> tuple[type[Spec], ...]:
    """The operators of `operators.yaml` that differ from a base only in class attributes."""
    return tuple(type(name, (base,), {"__module__": base.__module__}) for name in _LISTED[base.__name__])


def draw_features(limit: int = 256) -> int:
    """A number of features or channels as models have them: powers of two in half of the cases."""
    choices = [32, 64, 64, 128, 128, 256, 256, 512, 48, 80, 96, 100, 120, 144, 160, 192, 200, 320, 384]
    fewer = [8, 10, 12, 16, 20, 24] if limit < min(choices) else []
    return random.choice([choice for choice in (*fewer, *choices) if choice <= limit] or [limit])


def elements(shape: Sequence[int]) -> int:
    return math.prod(shape)
