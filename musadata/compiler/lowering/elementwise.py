"""Lowering of operators that compute each element from the elements at the same place."""

from collections.abc import Callable
from functools import partial
from typing import Any

from musadata.compiler.ir.captured_graph import Reference
from musadata.compiler.ir.index_formulas import as_index
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.compiler.ir.program import Indices
from musadata.compiler.ir.scalar import (
    MATH_FUNCTIONS,
    Compare,
    Given,
    GivenUnsupported,
    Scalar,
    apply,
    call,
    cast,
    choose,
    compute_type,
    count_as,
    is_never_negative,
    literal,
)
from musadata.compiler.lowering.rewriting import assuming
from musadata.compiler.lowering.rules import Call, Results, Value, cost_of, promote, replaced, rule

HEAVY = 4  # cost of a transcendental function; an addition costs 1
_UNARY, _BINARY = ("self",), ("self", "other")

# Operators that are one operation of the device: their cost and their arguments.
_DEVICE_OPERATIONS = {
    **dict.fromkeys((*MATH_FUNCTIONS, "sigmoid", "silu"), (HEAVY, _UNARY)),
    **dict.fromkeys(("abs", "neg", "floor", "ceil", "trunc", "reciprocal", "sign"), (1, _UNARY)),
    **dict.fromkeys(("mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"), (1, _BINARY)),
    **dict.fromkeys(("atan2", "fmod", "hypot", "copysign", "fmax", "fmin"), (HEAVY, _BINARY)),
    **dict.fromkeys(("floor_divide", "remainder"), (HEAVY, _BINARY)),
}


def _operands(c: Call, names: tuple[str, ...]) -> list[Any]:
    return [c.node.arguments.get(name) for name in names]


def pointwise(c: Call, names: tuple[str, ...], compute: Callable[..., Scalar], cost: int, dtype: str = "") -> Value:
    """The result of `compute` on the named arguments' elements; None stands for an argument that is not given."""
    operands, computed = _operands(c, names), dtype or c.dtype

    def body(index: Indices) -> Scalar:
        return compute(*(None if item is None else c.scalar(item, index, c.type.shape, computed) for item in operands))

    tensors = [c.resolve(item) for item in operands if isinstance(item, Reference)]
    return c.new(body, cost + cost_of(*tensors))


@rule(*_DEVICE_OPERATIONS)
def _device_operation(c: Call) -> Results:
    cost, names = _DEVICE_OPERATIONS[c.operator]
    if c.operator == "abs":
        return pointwise(c, names, lambda x: x if is_never_negative(x) else apply("abs", x), cost)
    return pointwise(c, names, lambda *xs: call(c.operator, c.dtype, *xs), cost)


@rule("add", "sub")
def _add(c: Call) -> Results:
    alpha = c.number("alpha", 1)

    def compute(x: Scalar, y: Scalar) -> Scalar:
        return call("or" if c.dtype == "bool" else c.operator, c.dtype, x, y * alpha)

    return pointwise(c, _BINARY, compute, 1)


@rule("div")
def _div(c: Call) -> Results:
    mode = c.node.arguments.get("rounding_mode")
    operation = {None: "div", "floor": "floor_divide", "trunc": "trunc_divide"}[mode]
    return pointwise(c, _BINARY, lambda x, y: call(operation, c.dtype, x, y), 1)


@rule("pow")
def _pow(c: Call) -> Results:
    exponent = c.node.arguments.get("exponent")

    def compute(x: Scalar, y: Scalar) -> Scalar:
        if exponent in (2, 3):
            return x * x if exponent == 2 else x * x * x
        if exponent in (0.5, -0.5, -1):
            return apply({0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}[exponent], x)
        return apply("pow", x, y)

    return pointwise(c, ("self", "exponent"), compute, 2 if exponent in (2, 3) else HEAVY)


@rule("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite")
def _test(c: Call) -> Results:
    names = _UNARY if c.operator.startswith("is") else _BINARY
    dtypes = [c.resolve(x).dtype for x in _operands(c, names) if isinstance(x, Reference)]
    other, integers = c.node.arguments.get("other"), all("float" not in dtype for dtype in dtypes)
    if isinstance(other, Given) and integers and other.is_integer:
        raise GivenUnsupported(other.name)  # numbers are floats in a kernel, which do not hold every integer
    if isinstance(other, (float, Given)):
        dtypes.append("float32")
    return pointwise(c, names, lambda *xs: call(c.operator, "bool", *xs), 1, promote(*dtypes))


_LOGICAL = {"logical_not": "not", "logical_and": "and", "logical_or": "or", "logical_xor": "ne"}


@rule(*_LOGICAL)
def _logical(c: Call) -> Results:
    names = _UNARY if c.operator == "logical_not" else _BINARY
    return pointwise(c, names, lambda *xs: call(_LOGICAL[c.operator], "bool", *xs), 1, "bool")


@rule("where")
def _where(c: Call) -> Results:
    condition, chosen = c.value("condition"), _operands(c, _BINARY)

    def body(index: Indices) -> Scalar:
        test = c.scalar(c.node.arguments["condition"], index, c.type.shape, "bool")
        yes, no = (c.scalar(item, index, c.type.shape, c.dtype) for item in chosen)
        return choose(test, assuming(test, yes), no)

    tensors = [c.resolve(item) for item in chosen if isinstance(item, Reference)]
    return c.new(body, 1 + cost_of(condition, *tensors))


def _softplus(x: Scalar, beta: float, threshold: float) -> Scalar:
    inner = x * beta
    return choose(inner > threshold, x, apply("log1p", apply("exp", inner)) / beta)


def _clamped(x: Scalar, low: Scalar | None, high: Scalar | None) -> Scalar:
    if low is not None:
        x = choose(x < low, low, x)
    return x if high is None else choose(x > high, high, x)


def _relu(x: Scalar) -> Scalar:
    """Written so that a NaN stays one, as PyTorch's does; fmaxf(x, 0) would turn it into 0."""
    return x if is_never_negative(x) else choose(x < 0, 0, x)


def _hardsigmoid(x: Scalar, factor: Scalar | None = None) -> Scalar:
    zero, six = literal(0, x.dtype), literal(6, x.dtype)
    shifted = x + 3
    capped = choose(shifted > six, six, shifted)
    clipped = choose(capped < zero, zero, capped)
    return (clipped if factor is None else factor * clipped) / six


def _elu(x: Scalar, alpha: float, scale: float, input_scale: float) -> Scalar:
    return choose(x > 0, x * scale, apply("expm1", x * input_scale) * alpha * scale)


def _xlogy(x: Scalar, y: Scalar) -> Scalar:
    zero = literal(0, x.dtype)
    return choose(call("eq", "bool", x, zero), zero, x * apply("log", y))


def _at_most(x: Scalar, bound: float) -> Scalar:
    return call("le", "bool", x, literal(bound, x.dtype))


def _softshrink(x: Scalar, width: float) -> Scalar:
    raised = x + width
    return choose(x > width, x - width, choose(raised < 0, raised, x * 0))  # x * 0 passes NaN on


# Operators that are a formula of one element, with its cost. Its parameters have the names that aten gives them:
# elements before the star, plain numbers behind it.
_FORMULAS: dict[str, tuple[int, Callable[..., Scalar]]] = {
    "rsub": (1, lambda self, other: other - self),
    "round": (1, lambda self, *, decimals: apply("round", self * 10.0**decimals) / 10.0**decimals),
    "bitwise_not": (1, lambda self: apply("not" if self.dtype == "bool" else "bitwise_not", self)),
    "relu": (1, lambda self: _relu(self)),
    "leaky_relu": (2, lambda self, *, negative_slope: choose(self > 0, self, self * negative_slope)),
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max"), (2, lambda self, min, max: _clamped(self, min, max))),
    "hardtanh": (2, lambda self, min_val, max_val: _clamped(self, min_val, max_val)),
    "addcmul": (3, lambda self, tensor1, tensor2, *, value: self + tensor1 * tensor2 * value),
    "addcdiv": (3, lambda self, tensor1, tensor2, *, value: self + tensor1 / tensor2 * value),
    "hardshrink": (2, lambda self, *, lambd: choose(_at_most(apply("abs", self), lambd), 0, self)),
    "softshrink": (3, lambda self, *, lambd: _softshrink(self, lambd)),
    "threshold": (1, lambda self, *, threshold, value: choose(_at_most(self, threshold), value, self)),
    "_prelu_kernel": (2, lambda self, weight: choose(self > 0, self, weight * self)),
    "hardsigmoid": (4, lambda self: _hardsigmoid(self)),
    "hardswish": (4, lambda self: _hardsigmoid(self, self)),
    "elu": (HEAVY, lambda self, *, alpha, scale, input_scale: _elu(self, alpha, scale, input_scale)),
    "celu": (HEAVY, lambda self, *, alpha: choose(self > 0, self, apply("expm1", self / alpha) * alpha)),
    "gelu": (HEAVY, lambda self, *, approximate: apply("gelu_tanh" if approximate == "tanh" else "gelu", self)),
    "xlogy": (HEAVY, lambda self, other: _xlogy(self, other)),
    "softplus": (2 * HEAVY, lambda self, *, beta, threshold: _softplus(self, beta, threshold)),
    "mish": (9, lambda self: self * apply("tanh", _softplus(self, 1, 20))),
}


@rule(*_FORMULAS)
def _formula(c: Call) -> Results:
    cost, formula = _FORMULAS[c.operator]
    elements, numbers = c.split_parameters(formula)
    return pointwise(c, elements, partial(formula, **numbers), cost)


@rule("log_sigmoid_forward")
def _log_sigmoid(c: Call) -> Results:
    source = c.value("self")

    def body(index: Indices) -> Scalar:
        value = source.load(index)
        smaller = apply("log1p", apply("exp", apply("neg", apply("abs", value))))
        return choose(value < 0, value, 0) - smaller

    return c.new(body, 2 * HEAVY + source.cost), None


@rule("_to_copy", "clone", "alias", "detach", "lift_fresh_copy", "contiguous", "lift_fresh", "copy")
def _copy(c: Call) -> Results:
    source = c.value("src" if c.node.op.startswith("copy.") else "self")
    narrows = not c.dtype.startswith("float") and c.dtype not in ("bool", "int32", "int64")
    if source.dtype != c.type.dtype and narrows and compute_type(source.dtype).startswith("float"):
        raise Unsupported("a cast from floating point to a small integer")

    def body(index: Indices) -> Scalar:
        return cast(source.load(index[len(index) - len(source.shape) :]), c.dtype)

    name = source.name if source.shape == c.type.shape else c.node.name
    return Value(name, c.type, body, source.cost, viewed=source)


@rule("full", "full_like", "new_full", "scalar_tensor", "fill", "zeros", "zeros_like", "new_zeros", "ones", "ones_like")
@rule("empty", "empty_like", "new_empty", "empty_permuted")
def _full(c: Call) -> Results:
    given = [c.node.arguments[key] for key in ("fill_value", "s", "value") if c.has(key)]
    value = 1 if c.operator.startswith("ones") else given[0] if given else 0
    # A reference that is the same every time never reads uninitialised memory, so any value will do for `empty`.
    return c.new(lambda index: c.scalar(value, index, c.type.shape, c.dtype), 0)


@rule("arange", "iota")
def _arange(c: Call) -> Results:
    start, step = c.node.arguments.get("start", 0), c.node.arguments.get("step", 1)

    def body(index: Indices) -> Scalar:
        if all(not isinstance(bound, float) for bound in (start, step)):
            return count_as(index[0] * as_index(step) + as_index(start), c.dtype)
        return count_as(index[0], c.dtype) * literal(step, c.dtype) + literal(start, c.dtype)

    return c.new(body, 0)


@rule("glu")
def _glu(c: Call) -> Results:
    source = c.value("self")
    dim = c.dimension("dim", len(source.shape), -1)

    def body(index: Indices) -> Scalar:
        gate = replaced(index, dim, index[dim] + c.type.shape[dim])
        return source.load(index) * call("sigmoid", c.dtype, source.load(gate))

    return c.new(body, HEAVY + 2 * source.cost)


@rule("tril", "triu")
def _triangle(c: Call) -> Results:
    source, diagonal = c.value("self"), c.size("diagonal")

    def body(index: Indices) -> Scalar:
        row, col = index[-2], index[-1]
        edges = (col, row + diagonal) if c.operator == "tril" else (row + diagonal, col)
        return choose(Compare("bool", "<=", *edges), source.load(index), 0)

    return c.new(body, 1 + source.cost)
