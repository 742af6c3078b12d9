"""Lowering of matrix products, convolution and distances: sums of products of two operands."""

from __future__ import annotations

import math

from musadata.teacher.compiler.ir.captured_graph import TensorType
from musadata.teacher.compiler.ir.index_formulas import ONE, ZERO, Index, divide
from musadata.teacher.compiler.ir.lowering_errors import Unsupported
from musadata.teacher.compiler.ir.program import Contraction, Indices, Reduction, axis_names, fixed
from musadata.teacher.compiler.ir.scalar import Compare, Scalar, call, cast, compute_type, guarded, literal, within
from musadata.teacher.compiler.lowering.reduction import power_norm, raised, rooted
from musadata.teacher.compiler.lowering.rules import Call, Results, Value, rule

_SPACE = {1: ("ow",), 2: ("oh", "ow"), 3: ("od", "oh", "ow")}
_KERNEL = {1: ("kw",), 2: ("kh", "kw"), 3: ("kd", "kh", "kw")}


def matrix_product(c: Call, left: Value, right: Value, name: str) -> Value:
    """left @ right, with as many leading batch dimensions as both have."""
    batch = len(left.shape) - 2
    dtype = compute_type(c.type.dtype)
    for operand in (left, right):
        if operand.cost > (3 if c.program.fuse else 0):
            c.program.realise(operand)

    def left_at(axes: Indices, loops: Indices) -> Scalar:
        return cast(left.load((*axes[:batch], axes[batch], loops[0])), dtype)

    def right_at(axes: Indices, loops: Indices) -> Scalar:
        return cast(right.load((*axes[:batch], loops[0], axes[-1])), dtype)

    shape = (*left.shape[:-1], right.shape[-1])
    reduction = Reduction("sum", fixed((left.shape[-1],)), ("k",))
    return c.program.reduce(
        name,
        TensorType(shape, dtype),
        ("row", "col") if not batch else ("b", "row", "col"),
        reduction,
        lambda axes, loops: call("mul", dtype, left_at(axes, loops), right_at(axes, loops)),
        Contraction(batch, 1, left_at, right_at),
    )


@rule("mm", "bmm")
def _mm(c: Call) -> Results:
    product = matrix_product(c, c.value("self"), c.value("mat2"), c.node.name)
    return c.new(product.load, 0, viewed=product)


@rule("addmm", "baddbmm")
def _addmm(c: Call) -> Results:
    names = ("mat1", "mat2") if c.node.op.startswith("addmm") else ("batch1", "batch2")
    product = matrix_product(c, c.value(names[0]), c.value(names[1]), f"{c.node.name}_product")
    dtype = compute_type(c.type.dtype)
    alpha, beta = float(c.number("alpha", 1)), float(c.number("beta", 1))

    def body(index: Indices) -> Scalar:
        bias = c.scalar(c.node.arguments["self"], index, c.type.shape, dtype)
        return call("add", dtype, _scaled(product.load(index), alpha), _scaled(bias, beta))

    return c.new(body, 1)


@rule("linear")
def _linear(c: Call) -> Results:
    source, weight, bias = c.value("input"), c.value("weight"), c.optional("bias")
    dtype = compute_type(c.type.dtype)
    for operand in (source, weight):
        if operand.cost > (3 if c.program.fuse else 0):
            c.program.realise(operand)

    def left(axes: Indices, loops: Indices) -> Scalar:
        return cast(source.load((*axes[:-1], loops[0])), dtype)

    def right(axes: Indices, loops: Indices) -> Scalar:
        return cast(weight.load((axes[-1], loops[0])), dtype)

    rank = len(source.shape)
    names = {1: ("col",), 2: ("row", "col"), 3: ("b", "row", "col")}.get(rank, axis_names(rank))
    product = c.program.reduce(
        c.node.name if bias is None else f"{c.node.name}_product",
        TensorType(c.type.shape, dtype),
        names,
        Reduction("sum", fixed((source.shape[-1],)), ("k",)),
        lambda axes, loops: call("mul", dtype, left(axes, loops), right(axes, loops)),
        Contraction(0, rank - 1, left, right),
    )
    if bias is None:
        return c.new(product.load, 0, viewed=product)

    def body(index: Indices) -> Scalar:
        assert bias is not None
        return call("add", dtype, product.load(index), cast(bias.load(index[-1:]), dtype))

    return c.new(body, 1)


def _scaled(value: Scalar, factor: float) -> Scalar:
    return value if factor == 1 else call("mul", value.dtype, value, literal(factor, value.dtype))


@rule("mv", "dot", "vdot")
def _mv(c: Call) -> Results:
    vector = c.value("vec") if c.node.op.startswith("mv") else c.value("tensor" if c.has("tensor") else "other")
    matrix, dtype = c.value("self"), compute_type(c.type.dtype)
    for operand in (matrix, vector):
        if operand.cost > 3:
            c.program.realise(operand)
    names = ("row",) if len(matrix.shape) == 2 else ()
    reduction = Reduction("sum", fixed((matrix.shape[-1],)), ("k",))
    return c.program.reduce(
        c.node.name,
        TensorType(matrix.shape[:-1], dtype),
        names,
        reduction,
        lambda axes, loops: call(
            "mul", dtype, cast(matrix.load((*axes, loops[0])), dtype), cast(vector.load(loops), dtype)
        ),
    )


@rule("addmv")
def _addmv(c: Call) -> Results:
    matrix, vector, dtype = c.value("mat"), c.value("vec"), compute_type(c.type.dtype)
    alpha, beta = float(c.number("alpha", 1)), float(c.number("beta", 1))
    product = c.program.reduce(
        f"{c.node.name}_product",
        TensorType(matrix.shape[:-1], dtype),
        ("row",),
        Reduction("sum", fixed((matrix.shape[-1],)), ("k",)),
        lambda axes, loops: call(
            "mul", dtype, cast(matrix.load((*axes, loops[0])), dtype), cast(vector.load(loops), dtype)
        ),
    )

    def body(index: Indices) -> Scalar:
        bias = c.scalar(c.node.arguments["self"], index, c.type.shape, dtype)
        return call("add", dtype, _scaled(product.load(index), alpha), _scaled(bias, beta))

    return c.new(body, 1)


@rule("convolution")
def _convolution(c: Call) -> Results:
    source, weight, bias = c.value("input"), c.value("weight"), c.optional("bias")
    for operand in (source, weight):
        if operand.cost:
            c.program.realise(operand)
    dtype = compute_type(c.type.dtype)
    name = c.node.name if bias is None else f"{c.node.name}_product"
    product = _Convolution(c, source, weight).reduce(name)
    if bias is None:
        return c.new(product.load, 0, viewed=product)

    def body(index: Indices) -> Scalar:
        assert bias is not None
        return call("add", dtype, product.load(index), cast(bias.load(index[1:2]), dtype))

    return c.new(body, 1)


class _Convolution:
    """A convolution or transposed convolution as a sum over input channels and kernel positions."""

    def __init__(self, c: Call, source: Value, weight: Value):
        self.c, self.source, self.weight = c, source, weight
        self.rank = len(source.shape) - 2
        if len(c.type.shape) != self.rank + 2 or self.rank not in _SPACE:
            raise Unsupported(f"convolution over {self.rank} dimensions")
        self.stride, self.padding, self.dilation = (
            c.sizes(name, self.rank) for name in ("stride", "padding", "dilation")
        )
        self.transposed, self.groups = bool(c.number("transposed", False)), int(c.number("groups", 1))
        self.dtype = compute_type(c.type.dtype)

    def reduce(self, name: str) -> Value:
        group_inputs = divide(self.source.shape[1], ONE * self.groups)[0]
        kernel = self.weight.shape[2:]
        tiled = self.groups == 1 and self.rank <= 2
        return self.c.program.reduce(
            name,
            TensorType(self.c.type.shape, self.dtype),
            ("n", "oc", *_SPACE[self.rank]),
            Reduction("sum", fixed((group_inputs, *kernel)), ("ic", *_KERNEL[self.rank])),
            lambda axes, loops: self._guarded_product(axes, loops),
            Contraction(1, 1, self._weight_at, self._source_at) if tiled else None,
        )

    def _group(self, axes: Indices) -> Index:
        if self.groups == 1:
            return ZERO
        return divide(axes[1], divide(self.c.type.shape[1], ONE * self.groups)[0])[0]

    def _place(self, axes: Indices, loops: Indices) -> tuple[Indices, list[Scalar]]:
        """Where in the input a kernel position reads, and what must hold for it to be inside."""
        group_inputs = divide(self.source.shape[1], ONE * self.groups)[0]
        place: list[Index] = [axes[0], self._group(axes) * group_inputs + loops[0]]
        needed: list[Scalar] = []
        for d in range(self.rank):
            size = self.source.shape[2 + d]
            if not self.transposed:
                at = axes[2 + d] * self.stride[d] - self.padding[d] + loops[1 + d] * self.dilation[d]
            else:
                reach = axes[2 + d] + self.padding[d] - loops[1 + d] * self.dilation[d]
                at = reach
                if self.stride[d] != ONE:
                    at, rest = divide(reach, self.stride[d])
                    needed += [t for t in within(reach, reach + 1) if t.relation == ">="]  # type: ignore[attr-defined]
                    needed.append(Compare("bool", "==", rest, ZERO))
            place.append(at)
            needed += [test for test in within(at, size) if self.transposed is False or not _same(test, needed)]
        return tuple(place), needed

    def _source_at(self, axes: Indices, loops: Indices) -> Scalar:
        place, needed = self._place(axes, loops)
        return guarded(needed, cast(self.source.load(place), self.dtype), 0)

    def _weight_at(self, axes: Indices, loops: Indices) -> Scalar:
        if not self.transposed:
            return cast(self.weight.load((axes[1], *loops)), self.dtype)
        outputs = self.weight.shape[1]
        group_inputs = divide(self.source.shape[1], ONE * self.groups)[0]
        within_group = axes[1] - self._group(axes) * outputs
        return cast(
            self.weight.load((self._group(axes) * group_inputs + loops[0], within_group, *loops[1:])), self.dtype
        )

    def _guarded_product(self, axes: Indices, loops: Indices) -> Scalar:
        place, needed = self._place(axes, loops)
        source = cast(self.source.load(place), self.dtype)
        return guarded(needed, call("mul", self.dtype, source, self._weight_at(axes, loops)), 0)


def _same(test: Scalar, tests: list[Scalar]) -> bool:
    assert isinstance(test, Compare)
    return any(
        isinstance(t, Compare) and (t.relation, t.left, t.right) == (test.relation, test.left, test.right)
        for t in tests
    )


@rule("_trilinear")
def _trilinear(c: Call) -> Results:
    """The sum over `sumdim` of the product of three tensors, each with dimensions of size 1 put in."""
    dtype = compute_type(c.type.dtype)
    operands = [(c.value(f"i{i}"), c.numbers(f"expand{i}")) for i in (1, 2, 3)]
    sums = c.numbers("sumdim")
    rank = len(operands[0][0].shape) + len(operands[0][1])
    sizes: list[Index] = [ONE] * rank
    for operand, expanded in operands:
        own = [dim for dim in range(rank) if dim not in expanded]
        for dim, size in zip(own, operand.shape, strict=True):
            sizes[dim] = size
    kept = [dim for dim in range(rank) if dim not in sums]

    def body(axes: Indices, loops: Indices) -> Scalar:
        places = dict(zip(kept, axes, strict=True)) | dict(zip(sums, loops, strict=True))
        value: Scalar | None = None
        for operand, expanded in operands:
            own = [dim for dim in range(rank) if dim not in expanded]
            factor = cast(operand.load(tuple(places[dim] for dim in own)), dtype)
            value = factor if value is None else call("mul", dtype, value, factor)
        assert value is not None
        return value

    return c.program.reduce(
        c.node.name,
        TensorType(tuple(sizes[dim] for dim in kept), dtype),
        axis_names(len(kept)),
        Reduction("sum", fixed(tuple(sizes[dim] for dim in sums)), tuple(f"k{dim}" for dim in sums)),
        body,
    )


@rule("_cdist_forward")
def _cdist(c: Call) -> Results:
    one, two, order = c.value("x1"), c.value("x2"), float(c.number("p", 2))
    dtype = compute_type(c.type.dtype)
    for operand in (one, two):
        if operand.cost:
            c.program.realise(operand)
    batch = len(one.shape) - 2

    def body(axes: Indices, loops: Indices) -> Scalar:
        left = cast(one.load((*axes[:batch], axes[batch], loops[0])), dtype)
        right = cast(two.load((*axes[:batch], axes[-1], loops[0])), dtype)
        return raised(call("sub", dtype, left, right), order)

    kind = {math.inf: "max", -math.inf: "min"}.get(order, "sum")
    total = c.program.reduce(
        f"{c.node.name.strip('_')}_sum",
        TensorType(c.type.shape, dtype),
        (*(f"b{i}" for i in range(batch)), "row", "col"),
        Reduction(kind, fixed((one.shape[-1],)), ("k",)),
        body,
    )
    return c.new(lambda index: rooted(total.load(index), order), 4)


__all__ = ["matrix_product", "power_norm"]
