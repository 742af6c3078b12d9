"""Lowering of operators that compute each element from the elements at the same place."""

from __future__ import annotations

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
    Formula,
    Scalar,
    call,
    cast,
    compute_type,
    literal,
)
from musadata.teacher.compiler.lowering.rules import Call, Results, Value, cost_of, promote, rule

Formulae = Callable[..., Scalar]
HEAVY = 4  # cost of a transcendental function against 1 for an addition


def _operands(node_call: Call, names: tuple[str, ...]) -> list[Any]:
    return [node_call.node.arguments.get(name) for name in names]


def pointwise(node_call: Call, names: tuple[str, ...], compute: Formulae, cost: int, dtype: str = "") -> Value:
    """The result of `compute` on the named arguments' elements; None stands for an argument that is not given."""
    operands = _operands(node_call, names)
    computed = dtype or compute_type(node_call.type.dtype)

    def body(index: Indices) -> Scalar:
        scalars = [
            None if item is None else node_call.scalar(item, index, node_call.type.shape, computed) for item in operands
        ]
        return compute(*scalars)

    tensors = [node_call.resolve(item) for item in operands if isinstance(item, Reference)]
    return node_call.new(body, cost + cost_of(*tensors))


def _simple(operation: str, cost: int, *names: str) -> None:
    """Registers an operator that is one operation of the device."""

    @rule(operation)
    def lower(node_call: Call) -> Results:
        dtype = compute_type(node_call.type.dtype)
        return pointwise(node_call, names, lambda *xs: call(operation, dtype, *xs), cost)


for _name in MATH_FUNCTIONS:
    _simple(_name, HEAVY, "self")
for _name in ["abs", "neg", "floor", "ceil", "trunc", "reciprocal", "sign"]:
    _simple(_name, 1, "self")
for _name in ["mul", "maximum", "minimum"]:
    _simple(_name, 1, "self", "other")
for _name in ["atan2", "fmod", "hypot", "copysign", "fmax", "fmin"]:
    _simple(_name, HEAVY, "self", "other")
for _name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
    _simple(_name, 1, "self", "other")


@rule("round")
def _round(c: Call) -> Results:
    digits = 10.0 ** int(c.number("decimals"))
    dtype = compute_type(c.type.dtype)

    def compute(x: Scalar) -> Scalar:
        if digits == 1:
            return call("round", dtype, x)
        return call(
            "div", dtype, call("round", dtype, call("mul", dtype, x, literal(digits, dtype))), literal(digits, dtype)
        )

    return pointwise(c, ("self",), compute, 1)


@rule("add", "sub")
def _add(c: Call) -> Results:
    operation, dtype = c.node.op.split(".")[0], compute_type(c.type.dtype)
    alpha = c.number("alpha", 1)

    def compute(x: Scalar, y: Scalar) -> Scalar:
        scaled = y if alpha == 1 else call("mul", dtype, y, literal(alpha, dtype))
        if dtype == "bool":
            return call("or", dtype, x, scaled)
        return call(operation, dtype, x, scaled)

    return pointwise(c, ("self", "other"), compute, 1)


@rule("rsub")
def _rsub(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    return pointwise(c, ("self", "other"), lambda x, y: call("sub", dtype, y, x), 1)


@rule("div")
def _div(c: Call) -> Results:
    dtype, mode = compute_type(c.type.dtype), c.node.arguments.get("rounding_mode")
    operation = {None: "div", "floor": "floor_divide", "trunc": "trunc_divide"}[mode]
    return pointwise(c, ("self", "other"), lambda x, y: call(operation, dtype, x, y), 1)


@rule("floor_divide", "remainder")
def _floor_divide(c: Call) -> Results:
    operation, dtype = c.node.op.split(".")[0], compute_type(c.type.dtype)
    return pointwise(c, ("self", "other"), lambda x, y: call(operation, dtype, x, y), HEAVY)


@rule("pow")
def _pow(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    exponent = c.node.arguments.get("exponent")

    def compute(x: Scalar, y: Scalar) -> Scalar:
        if exponent in (2, 3):
            square = call("mul", dtype, x, x)
            return square if exponent == 2 else call("mul", dtype, square, x)
        if exponent in (0.5, -0.5, -1):
            return call({0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}[exponent], dtype, x)
        return call("pow", dtype, x, y)

    return pointwise(c, ("self", "exponent"), compute, 2 if exponent in (2, 3) else HEAVY)


@rule("eq", "ne", "lt", "le", "gt", "ge")
def _compare(c: Call) -> Results:
    operation = c.node.op.split(".")[0]
    dtypes = [c.resolve(x).dtype for x in _operands(c, ("self", "other")) if isinstance(x, Reference)]
    if isinstance(c.node.arguments["other"], float):
        dtypes.append("float32")
    return pointwise(c, ("self", "other"), lambda x, y: call(operation, "bool", x, y), 1, promote(*dtypes))


@rule("isnan", "isinf", "isfinite", "logical_not")
def _test(c: Call) -> Results:
    operation, dtype = c.node.op.split(".")[0], compute_type(c.value("self").dtype)
    computed = "bool" if operation == "logical_not" else dtype
    operation = "not" if operation == "logical_not" else operation
    return pointwise(c, ("self",), lambda x: call(operation, "bool", x), 1, computed)


@rule("bitwise_not")
def _bitwise_not(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    return pointwise(c, ("self",), lambda x: call("not" if dtype == "bool" else "bitwise_not", dtype, x), 1)


@rule("logical_and", "logical_or", "logical_xor")
def _logical(c: Call) -> Results:
    operation = {"logical_and": "and", "logical_or": "or", "logical_xor": "ne"}[c.node.op.split(".")[0]]
    return pointwise(c, ("self", "other"), lambda x, y: call(operation, "bool", x, y), 1, "bool")


@rule("relu")
def _relu(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    # Written so that a NaN stays one, as PyTorch's does; fmaxf(x, 0) would turn it into 0.
    return pointwise(c, ("self",), lambda x: _choose(call("lt", "bool", x, literal(0, dtype)), literal(0, dtype), x), 1)


def _choose(condition: Scalar, yes: Scalar, no: Scalar) -> Choose:
    return Choose(no.dtype, condition, yes, no)


@rule("leaky_relu")
def _leaky_relu(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    slope = literal(c.number("negative_slope", 0.01), dtype)
    zero = literal(0, dtype)
    return pointwise(c, ("self",), lambda x: _choose(call("gt", "bool", x, zero), x, call("mul", dtype, x, slope)), 2)


@rule("clamp", "hardtanh", "clamp_min", "clamp_max")
def _clamp(c: Call) -> Results:
    names = ("self", "min_val", "max_val") if c.node.op.startswith("hardtanh") else ("self", "min", "max")

    def compute(x: Scalar, low: Scalar | None, high: Scalar | None) -> Scalar:
        if low is not None:
            x = _choose(call("lt", "bool", x, low), low, x)
        return x if high is None else _choose(call("gt", "bool", x, high), high, x)

    return pointwise(c, names, compute, 2)


@rule("where")
def _where(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    condition, chosen = c.value("condition"), _operands(c, ("self", "other"))

    def body(index: Indices) -> Scalar:
        test = c.scalar(c.node.arguments["condition"], index, c.type.shape, "bool")
        yes, no = (c.scalar(item, index, c.type.shape, dtype) for item in chosen)
        return _choose(test, yes, no)

    tensors = [c.resolve(item) for item in chosen if isinstance(item, Reference)]
    return c.new(body, 1 + cost_of(condition, *tensors))


@rule("sigmoid")
def _sigmoid(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    return pointwise(c, ("self",), lambda x: call("sigmoid", dtype, x), HEAVY)


@rule("silu")
def _silu(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    return pointwise(c, ("self",), lambda x: call("silu", dtype, x), HEAVY)


@rule("mish")
def _mish(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    return pointwise(c, ("self",), lambda x: call("mul", dtype, x, call("tanh", dtype, _softplus_of(x, 1.0, 20.0))), 9)


def _softplus_of(x: Scalar, beta: float, threshold: float) -> Scalar:
    scaled = x if beta == 1 else call("mul", x.dtype, x, literal(beta, x.dtype))
    soft = call("log1p", x.dtype, call("exp", x.dtype, scaled))
    soft = soft if beta == 1 else call("div", x.dtype, soft, literal(beta, x.dtype))
    return _choose(call("gt", "bool", scaled, literal(threshold, x.dtype)), x, soft)


@rule("softplus")
def _softplus(c: Call) -> Results:
    beta, threshold = float(c.number("beta", 1)), float(c.number("threshold", 20))
    return pointwise(c, ("self",), lambda x: _softplus_of(x, beta, threshold), 2 * HEAVY)


@rule("gelu")
def _gelu(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    operation = "gelu" if c.node.arguments.get("approximate", "none") == "none" else "gelu_tanh"
    return pointwise(c, ("self",), lambda x: call(operation, dtype, x), HEAVY)


@rule("elu")
def _elu(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    alpha, scale, inner = (float(c.number(name, 1)) for name in ("alpha", "scale", "input_scale"))

    def compute(x: Scalar) -> Scalar:
        scaled = x if inner == 1 else call("mul", dtype, x, literal(inner, dtype))
        low = _times(call("expm1", dtype, scaled), alpha * scale)
        return _choose(call("gt", "bool", x, literal(0, dtype)), _times(x, scale), low)

    return pointwise(c, ("self",), compute, HEAVY)


def _times(x: Scalar, factor: float) -> Scalar:
    return x if factor == 1 else call("mul", x.dtype, x, literal(factor, x.dtype))


@rule("hardsigmoid", "hardswish")
def _hardsigmoid(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)

    def compute(x: Scalar) -> Scalar:
        zero, six = literal(0, dtype), literal(6, dtype)
        shifted = call("add", dtype, x, literal(3, dtype))
        capped = _choose(call("gt", "bool", shifted, six), six, shifted)
        clipped = _choose(call("lt", "bool", capped, zero), zero, capped)
        whole = clipped if c.node.op.startswith("hardsigmoid") else call("mul", dtype, x, clipped)
        return call("div", dtype, whole, six)

    return pointwise(c, ("self",), compute, 4)


@rule("addcmul", "addcdiv")
def _addc(c: Call) -> Results:
    dtype, operation = compute_type(c.type.dtype), "mul" if c.node.op.startswith("addcmul") else "div"
    factor = float(c.number("value", 1))

    def compute(x: Scalar, one: Scalar, two: Scalar) -> Scalar:
        return call("add", dtype, x, _times(call(operation, dtype, one, two), factor))

    return pointwise(c, ("self", "tensor1", "tensor2"), compute, 3)


@rule("xlogy")
def _xlogy(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)

    def compute(x: Scalar, y: Scalar) -> Scalar:
        zero = literal(0, dtype)
        return _choose(call("eq", "bool", x, zero), zero, call("mul", dtype, x, call("log", dtype, y)))

    return pointwise(c, ("self", "other"), compute, HEAVY)


@rule("_to_copy", "clone", "alias", "detach", "lift_fresh_copy", "contiguous", "lift_fresh", "copy")
def _copy(c: Call) -> Results:
    source = c.value("src" if c.node.op.startswith("copy.") else "self")
    wanted = compute_type(c.type.dtype)
    loses = compute_type(source.dtype).startswith("float") and not wanted.startswith("float") and wanted != "bool"
    if source.dtype != c.type.dtype and loses and wanted not in ("int64", "int32"):
        raise Unsupported("a cast from floating point to a small integer")

    def body(index: Indices) -> Scalar:
        inner = index[len(index) - len(source.shape) :]
        return cast(source.load(inner), wanted)

    return c.new(body, source.cost, viewed=source)


@rule(
    "full",
    "full_like",
    "zeros",
    "ones",
    "zeros_like",
    "ones_like",
    "empty",
    "scalar_tensor",
    "new_full",
    "new_zeros",
    "empty_permuted",
    "empty_like",
    "new_empty",
    "fill",
)
def _full(c: Call) -> Results:
    name = c.node.op.split(".")[0]
    given = [c.node.arguments[key] for key in ("fill_value", "s", "value") if c.has(key)]
    value = 1 if name.startswith("ones") else given[0] if given else 0
    # A reference that is the same every time never reads uninitialised memory, so any value will do for `empty`.
    dtype = compute_type(c.type.dtype)
    return c.new(lambda index: c.scalar(value, index, c.type.shape, dtype), 0)


@rule("arange", "iota")
def _arange(c: Call) -> Results:
    dtype = compute_type(c.type.dtype)
    start, step = c.node.arguments.get("start", 0), c.node.arguments.get("step", 1)

    def body(index: Indices) -> Scalar:
        if all(not isinstance(bound, float) for bound in (start, step)):
            return cast(Formula("int64", index[0] * as_index(step) + as_index(start)), dtype)
        scaled = call("mul", dtype, cast(Formula("int64", index[0]), dtype), literal(step, dtype))
        return call("add", dtype, scaled, literal(start, dtype))

    return c.new(body, 0)


@rule("glu")
def _glu(c: Call) -> Results:
    source = c.value("self")
    dim, dtype = c.dimension("dim", len(source.shape), -1), compute_type(c.type.dtype)

    def body(index: Indices) -> Scalar:
        gate = (*index[:dim], index[dim] + c.type.shape[dim], *index[dim + 1 :])
        return call("mul", dtype, source.load(index), call("sigmoid", dtype, source.load(gate)))

    return c.new(body, HEAVY + 2 * source.cost)


@rule("tril", "triu")
def _triangle(c: Call) -> Results:
    source, diagonal = c.value("self"), c.size("diagonal")
    lower = c.node.op.startswith("tril")

    def body(index: Indices) -> Scalar:
        row, col = index[-2], index[-1]
        edge = Compare("bool", "<=", col, row + diagonal) if lower else Compare("bool", "<=", row + diagonal, col)
        value = source.load(index)
        return Choose(value.dtype, edge, value, literal(0, value.dtype))

    return c.new(body, 1 + source.cost)
