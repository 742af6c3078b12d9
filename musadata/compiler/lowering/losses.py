"""Lowering of losses: a formula of each element, and its sum or mean."""

from collections.abc import Callable

from musadata.compiler.ir.index_formulas import product
from musadata.compiler.ir.program import Indices
from musadata.compiler.ir.scalar import Scalar, apply, call, choose, literal
from musadata.compiler.lowering.elementwise import HEAVY
from musadata.compiler.lowering.reduction import divided, reduce_over, restored
from musadata.compiler.lowering.rules import Call, Results, Value, cost_of, rule

_NONE, _MEAN = 0, 1  # aten's numbers for ways to reduce; 2 is the sum


def _huber(self: Scalar, target: Scalar, *, delta: float) -> Scalar:
    distance = apply("abs", self - target)
    bound = literal(delta, self.dtype)
    return choose(distance < bound, distance * distance * 0.5, (distance - bound * 0.5) * bound)


def _smooth_l1(self: Scalar, target: Scalar, *, beta: float) -> Scalar:
    distance = apply("abs", self - target)
    if beta == 0:
        return distance
    bound = literal(beta, self.dtype)
    return choose(distance < bound, distance * distance * 0.5 / bound, distance - bound * 0.5)


def _cross_entropy(self: Scalar, target: Scalar, weight: Scalar | None) -> Scalar:
    """Logarithms end at -100, as PyTorch's do, so that a probability of 0 gives no infinity."""

    def log(value: Scalar) -> Scalar:
        return call("maximum", self.dtype, value, literal(-100, self.dtype))

    yes, no = log(apply("log", self)), log(apply("log1p", apply("neg", self)))
    loss = (target - 1) * no - target * yes
    return loss if weight is None else loss * weight


def _cross_entropy_with_logits(
    self: Scalar, target: Scalar, weight: Scalar | None, pos_weight: Scalar | None
) -> Scalar:
    """The exponential of a number that is never positive does not overflow."""
    rest = apply("log1p", apply("exp", apply("neg", apply("abs", self))))
    if pos_weight is None:
        loss = choose(self < 0, 0, self) - self * target + rest
    else:
        below = apply("neg", self)
        scale = (pos_weight - 1) * target + literal(1, self.dtype)
        loss = (literal(1, self.dtype) - target) * self + scale * (rest + choose(below < 0, 0, below))
    return loss if weight is None else loss * weight


def _squared(self: Scalar, target: Scalar) -> Scalar:
    distance = self - target
    return distance * distance


# The formula of one element, with its cost. Parameters have aten's names: elements before the star, numbers behind it.
_LOSSES: dict[str, tuple[int, Callable[..., Scalar]]] = {
    "mse_loss": (2, _squared),
    "huber_loss": (6, _huber),
    "smooth_l1_loss": (6, _smooth_l1),
    "soft_margin_loss": (2 * HEAVY, lambda self, target: apply("log1p", apply("exp", apply("neg", self) * target))),
    "binary_cross_entropy": (2 * HEAVY, _cross_entropy),
    "binary_cross_entropy_with_logits": (2 * HEAVY, _cross_entropy_with_logits),
}


@rule(*_LOSSES)
def _loss(c: Call) -> Results:
    cost, formula = _LOSSES[c.operator]
    elements, numbers = c.split_parameters(formula)
    tensors = [c.value(name) for name in elements if c.has(name)]
    shape = max((tensor.shape for tensor in tensors), key=len)

    def body(index: Indices) -> Scalar:
        given = [c.node.arguments.get(name) for name in elements]
        return formula(*(None if one is None else c.scalar(one, index, shape, c.dtype) for one in given), **numbers)

    loss = Value(c.node.name, type(c.type)(shape, c.dtype), body, cost + cost_of(*tensors))
    reduction = c.number("reduction", _MEAN)
    if reduction == _NONE:
        return loss
    dims = range(len(shape))
    total = reduce_over(c, loss, dims, "sum", f"{c.node.name}_sum", c.dtype)
    if reduction != _MEAN:
        return restored(c, total, dims)
    return restored(c, total, dims, lambda value: divided(value, product(shape)), 1)
