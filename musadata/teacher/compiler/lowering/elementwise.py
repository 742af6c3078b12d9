"""Lowering of operators that compute each element from the elements at the same place."""

from collections.abc import Callable
from typing import Any

from musadata.teacher.compiler.ir.captured_graph import Reference
from musadata.teacher.compiler.ir.index_formulas import as_index
from musadata.teacher.compiler.ir.lowering_errors import Unsupported
from musadata.teacher.compiler.ir.program import Indices
from musadata.teacher.compiler.ir.scalar import (
    MATH_FUNCTIONS,
    Choose,
    Compare,
    Scalar,
    call,
    cast,
    choose,
    compute_type,
    count_as,
    literal,
    scaled,
)
from musadata.teacher.compiler.lowering.rules import Call, Results, Value, cost_of, promote, replaced, rule

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
    return pointwise(c, names, lambda *xs: call(c.operator, c.dtype, *xs), cost)


@rule("round")
def _round(c: Call) -> Results:
    digits = 10.0 ** int(c.number("decimals"))

    def compute(x: Scalar) -> Scalar:
        if digits == 1:
            return call("round", c.dtype, x)
        return call("round", c.dtype, x * literal(digits, c.dtype)) / literal(digits, c.dtype)

    return pointwise(c, _UNARY, compute, 1)


@rule("add", "sub")
def _add(c: Call) -> Results:
    alpha = c.number("alpha", 1)

    def compute(x: Scalar, y: Scalar) -> Scalar:
        return call("or" if c.dtype == "bool" else c.operator, c.dtype, x, scaled(y, alpha))

    return pointwise(c, _BINARY, compute, 1)


@rule("rsub")
def _rsub(c: Call) -> Results:
    return pointwise(c, _BINARY, lambda x, y: y - x, 1)


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
            return call({0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}[exponent], c.dtype, x)
        return call("pow", c.dtype, x, y)

    return pointwise(c, ("self", "exponent"), compute, 2 if exponent in (2, 3) else HEAVY)


@rule("eq", "ne", "lt", "le", "gt", "ge")
def _compare(c: Call) -> Results:
    dtypes = [c.resolve(x).dtype for x in _operands(c, _BINARY) if isinstance(x, Reference)]
    if isinstance(c.node.arguments["other"], float):
        dtypes.append("float32")
    return pointwise(c, _BINARY, lambda x, y: call(c.operator, "bool", x, y), 1, promote(*dtypes))


@rule("isnan", "isinf", "isfinite")
def _test(c: Call) -> Results:
    return pointwise(c, _UNARY, lambda x: call(c.operator, "bool", x), 1, compute_type(c.value("self").dtype))


@rule("bitwise_not")
def _bitwise_not(c: Call) -> Results:
    return pointwise(c, _UNARY, lambda x: call("not" if c.dtype == "bool" else "bitwise_not", c.dtype, x), 1)


_LOGICAL = {"logical_not": "not", "logical_and": "and", "logical_or": "or", "logical_xor": "ne"}


@rule(*_LOGICAL)
def _logical(c: Call) -> Results:
    names = _UNARY if c.operator == "logical_not" else _BINARY
    return pointwise(c, names, lambda *xs: call(_LOGICAL[c.operator], "bool", *xs), 1, "bool")


@rule("relu")
def _relu(c: Call) -> Results:
    # Written so that a NaN stays one, as PyTorch's does; fmaxf(x, 0) would turn it into 0.
    return pointwise(c, _UNARY, lambda x: choose(x < literal(0, c.dtype), literal(0, c.dtype), x), 1)


@rule("leaky_relu")
def _leaky_relu(c: Call) -> Results:
    slope, zero = literal(c.number("negative_slope", 0.01), c.dtype), literal(0, c.dtype)
    return pointwise(c, _UNARY, lambda x: choose(x > zero, x, x * slope), 2)


@rule("clamp", "hardtanh", "clamp_min", "clamp_max")
def _clamp(c: Call) -> Results:
    names = ("self", "min_val", "max_val") if c.operator == "hardtanh" else ("self", "min", "max")

    def compute(x: Scalar, low: Scalar | None, high: Scalar | None) -> Scalar:
        if low is not None:
            x = choose(x < low, low, x)
        return x if high is None else choose(x > high, high, x)

    return pointwise(c, names, compute, 2)


@rule("where")
def _where(c: Call) -> Results:
    condition, chosen = c.value("condition"), _operands(c, _BINARY)

    def body(index: Indices) -> Scalar:
        test = c.scalar(c.node.arguments["condition"], index, c.type.shape, "bool")
        yes, no = (c.scalar(item, index, c.type.shape, c.dtype) for item in chosen)
        return choose(test, yes, no)

    tensors = [c.resolve(item) for item in chosen if isinstance(item, Reference)]
    return c.new(body, 1 + cost_of(condition, *tensors))


@rule("mish")
def _mish(c: Call) -> Results:
    return pointwise(c, _UNARY, lambda x: x * call("tanh", c.dtype, _softplus_of(x, 1.0, 20.0)), 9)


def _softplus_of(x: Scalar, beta: float, threshold: float) -> Scalar:
    inner = scaled(x, beta)
    soft: Scalar = call("log1p", x.dtype, call("exp", x.dtype, inner))
    soft = soft if beta == 1 else soft / literal(beta, x.dtype)
    return choose(inner > literal(threshold, x.dtype), x, soft)


@rule("softplus")
def _softplus(c: Call) -> Results:
    beta, threshold = float(c.number("beta", 1)), float(c.number("threshold", 20))
    return pointwise(c, _UNARY, lambda x: _softplus_of(x, beta, threshold), 2 * HEAVY)


@rule("gelu")
def _gelu(c: Call) -> Results:
    operation = "gelu" if c.node.arguments.get("approximate", "none") == "none" else "gelu_tanh"
    return pointwise(c, _UNARY, lambda x: call(operation, c.dtype, x), HEAVY)


@rule("elu")
def _elu(c: Call) -> Results:
    alpha, scale, inner = (float(c.number(name, 1)) for name in ("alpha", "scale", "input_scale"))

    def compute(x: Scalar) -> Scalar:
        low = scaled(call("expm1", c.dtype, scaled(x, inner)), alpha * scale)
        return choose(x > literal(0, c.dtype), scaled(x, scale), low)

    return pointwise(c, _UNARY, compute, HEAVY)


@rule("hardsigmoid", "hardswish")
def _hardsigmoid(c: Call) -> Results:
    def compute(x: Scalar) -> Scalar:
        zero, six = literal(0, c.dtype), literal(6, c.dtype)
        shifted = x + literal(3, c.dtype)
        capped = choose(shifted > six, six, shifted)
        clipped = choose(capped < zero, zero, capped)
        return (clipped if c.operator == "hardsigmoid" else x * clipped) / six

    return pointwise(c, _UNARY, compute, 4)


@rule("addcmul", "addcdiv")
def _addc(c: Call) -> Results:
    operation, factor = "mul" if c.operator == "addcmul" else "div", float(c.number("value", 1))

    def compute(x: Scalar, one: Scalar, two: Scalar) -> Scalar:
        return x + scaled(call(operation, c.dtype, one, two), factor)

    return pointwise(c, ("self", "tensor1", "tensor2"), compute, 3)


@rule("xlogy")
def _xlogy(c: Call) -> Results:
    def compute(x: Scalar, y: Scalar) -> Scalar:
        zero = literal(0, c.dtype)
        return choose(call("eq", "bool", x, zero), zero, x * call("log", c.dtype, y))

    return pointwise(c, _BINARY, compute, HEAVY)


@rule("_to_copy", "clone", "alias", "detach", "lift_fresh_copy", "contiguous", "lift_fresh", "copy")
def _copy(c: Call) -> Results:
    source = c.value("src" if c.node.op.startswith("copy.") else "self")
    narrows = not c.dtype.startswith("float") and c.dtype not in ("bool", "int32", "int64")
    if source.dtype != c.type.dtype and narrows and compute_type(source.dtype).startswith("float"):
        raise Unsupported("a cast from floating point to a small integer")

    def body(index: Indices) -> Scalar:
        return cast(source.load(index[len(index) - len(source.shape) :]), c.dtype)

    return c.new(body, source.cost, viewed=source)


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
        value = source.load(index)
        return Choose(value.dtype, Compare("bool", "<=", *edges), value, literal(0, value.dtype))

    return c.new(body, 1 + source.cost)
