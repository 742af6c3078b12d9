"""Operators that act on each element on its own, alone or with a broadcast partner."""

import random
from math import inf

from nnsmith.abstract.op import BcastBinaryOp1, mark_abstract

from musadata.records import OperatorFamily
from musadata.sources.generated.spec import F32, Fresh, Range, SameShape, Shape, Spec, define


class Pointwise(SameShape):
    """One operand in, the same shape out."""

    family = OperatorFamily.ELEMENTWISE
    repeats = False


ANY, POSITIVE, UNIT, SIGNED_UNIT, CLAMPED = (-inf, inf), (0.0, inf), (0.0, 1.0), (-1.0, 1.0), (-1.5, 1.5)


def _pointwise(
    name: str, template: str, weight: float = 1.0, result: str = "x", bounds: Range = ANY, identity: Range | None = None
) -> type[Spec]:
    return define(Pointwise, name, template, weight, result=result, bounds=bounds, identity_within=identity)


# Domains are made safe in the way that people do it (`log1p(abs(x))`), since a graph that yields NaN is no task.
POINTWISE: tuple[type[Spec], ...] = (
    _pointwise("Relu", "F.relu({0})", 2.0, bounds=POSITIVE, identity=POSITIVE),
    _pointwise("Gelu", "F.gelu({0})", 1.5),
    _pointwise("Silu", "F.silu({0})", 1.5),
    _pointwise("Sigmoid", "torch.sigmoid({0})", 1.5, "gate", UNIT),
    _pointwise("Tanh", "torch.tanh({0})", 1.5, bounds=SIGNED_UNIT),
    _pointwise("LeakyRelu", "F.leaky_relu({0}, negative_slope=0.1)", identity=POSITIVE),
    _pointwise("Elu", "F.elu({0})", 0.7, identity=POSITIVE),
    _pointwise("Softplus", "F.softplus({0})", 0.7, bounds=POSITIVE),
    _pointwise("Hardswish", "F.hardswish({0})", 0.5),
    _pointwise("Mish", "F.mish({0})", 0.5),
    _pointwise("Exp", "torch.exp(-torch.abs({0}))", 1.0, "decay", UNIT),
    _pointwise("Log", "torch.log1p(torch.abs({0}))", 1.0, "magnitude", POSITIVE),
    _pointwise("Sqrt", "torch.sqrt(torch.abs({0}) + 1e-6)", 1.0, "root", POSITIVE),
    _pointwise("Rsqrt", "torch.rsqrt({0} * {0} + 1e-5)", 0.5, "inverse", POSITIVE),
    _pointwise("Square", "torch.square({0})", 0.7, "squared", POSITIVE),
    _pointwise("Abs", "torch.abs({0})", 0.7, "magnitude", POSITIVE, POSITIVE),
    _pointwise("Sin", "torch.sin({0})", 0.7, "wave", SIGNED_UNIT),
    _pointwise("Cos", "torch.cos({0})", 0.7, "wave", SIGNED_UNIT),
    _pointwise("Atan", "torch.atan({0})", 0.4, "angle"),
    _pointwise("Erf", "torch.erf({0})", 0.4, bounds=SIGNED_UNIT),
    _pointwise("Clamp", "torch.clamp({0}, min=-1.5, max=1.5)", bounds=CLAMPED, identity=CLAMPED),
    _pointwise("Halve", "{0} * 0.5", 0.7, "scaled"),
    _pointwise("Offset", "{0} + 1.0", 0.5, "shifted"),
)


@mark_abstract("musadata")
class Binary(Spec, BcastBinaryOp1):
    """Two operands that broadcast; the second is often a new bias, scale or mask."""

    family = OperatorFamily.BROADCAST
    in_dtypes = ((F32, F32),)
    ranks = ((1, 2, 3, 4, 5), (1, 2, 3, 4, 5))

    def fresh_operands(self, first: Shape) -> tuple[Fresh, ...]:
        return (Fresh(draw_partner(first)),)


def draw_partner(shape: Shape) -> Shape:
    """A shape that broadcasts to `shape`: the same, one vector, one value per channel, or one per row."""
    channel = tuple(size if axis == 1 else 1 for axis, size in enumerate(shape))
    patterns = [shape, shape, shape[-1:], (*shape[:-1], 1)]
    if len(shape) >= 3:
        patterns += [channel[1:], channel, shape[1:]]
    return random.choice(patterns)


def _binary(name: str, template: str, weight: float, result: str, constant: str) -> type[Spec]:
    return define(Binary, name, template, weight, result=result, constant_names=(constant,))


BINARY: tuple[type[Spec], ...] = (
    _binary("Add", "{0} + {1}", 3.0, "x", "bias"),
    _binary("Sub", "{0} - {1}", 1.5, "centered", "offset"),
    _binary("Mul", "{0} * {1}", 3.0, "scaled", "scale"),
    _binary("Div", "{0} / (1.0 + torch.abs({1}))", 1.0, "ratio", "divisor"),
    _binary("Maximum", "torch.maximum({0}, {1})", 1.0, "upper", "floor"),
    _binary("Minimum", "torch.minimum({0}, {1})", 0.7, "lower", "ceiling"),
    _binary("Where", "torch.where({0} > {1}, {0}, 0.1 * {1})", 0.7, "selected", "threshold"),
)
