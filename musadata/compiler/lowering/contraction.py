"""Lowering of matrix products, convolution and distances: sums of products of two operands."""

import math
from collections.abc import Callable, Iterator, Sequence

from musadata.compiler.ir.captured_graph import TensorType
from musadata.compiler.ir.index_formulas import ONE, ZERO, Index, divide, minimum, number, product
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.compiler.ir.program import (
    KERNEL_AXES,
    SPATIAL_AXES,
    TAP_AXES,
    Contraction,
    Indices,
    Reduction,
    Split,
    axis_names,
    fixed,
)
from musadata.compiler.ir.scalar import Compare, Scalar, cast, guarded, inside_of, same, within
from musadata.compiler.lowering.reduction import norm_kind, raised, rooted
from musadata.compiler.lowering.rules import Call, Results, Value, rule

_OWN_PRODUCT = 64  # positions of an image: with fewer, the images of a pointwise convolution share a product
# Results that read each weight, and channels that share a tile, from which it pays to sort the weights first: else
# neighbouring rows of a tile lie a window of all channels apart, and each element is a sector of its own. Tiles go by
# slices of at least so many inputs of one tap; the rows of fewer inputs are read along the window.
_MANY_POSITIONS, _MANY_CHANNELS, _SLICE = 4096, 32, 8
MOST_INLINE = 3  # operands of a matrix product that cost more are kept in memory


def _sum_of_products(
    c: Call,
    name: str,
    shape: Indices,
    names: tuple[str, ...],
    left: Callable[[Indices, Indices], Indices],
    right: Callable[[Indices, Indices], Indices],
    operands: tuple[Value, Value],
    contraction: tuple[int, int] | None = None,
) -> Value:
    """The sum over `k`, the first operand's last dimension, of two operands' products.

    `left` and `right` give the index into each operand for (axes, inner); `contraction` is (batch, rows) of a product
    that can be tiled.
    """

    def left_at(axes: Indices, loops: Indices) -> Scalar:
        return cast(operands[0].load(left(axes, loops)), c.dtype)

    def right_at(axes: Indices, loops: Indices) -> Scalar:
        return cast(operands[1].load(right(axes, loops)), c.dtype)

    return c.program.reduce(
        name,
        TensorType(shape, c.type.dtype),
        names,
        Reduction("sum", fixed(operands[0].shape[-1:]), ("k",)),
        lambda axes, loops: left_at(axes, loops) * right_at(axes, loops),
        Contraction(*_dimensions(*contraction), left_at, right_at, dtype=_common(*operands)) if contraction else None,
    )


def _common(left: Value, right: Value) -> str:
    return left.dtype if left.dtype == right.dtype else ""


def _dimensions(batch: int, rows: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The leading dimensions that are a batch's, and those that are rows."""
    return tuple(range(batch)), tuple(range(batch, batch + rows))


def _matrix_product(c: Call, operand_names: Sequence[str], name: str) -> Value:
    """left @ right, with as many leading batch dimensions as both have."""
    left, right = (c.operand(operand, MOST_INLINE) for operand in operand_names)
    batch = len(left.shape) - 2
    return _sum_of_products(
        c,
        name,
        (*left.shape[:-1], right.shape[-1]),
        ("b", "row", "col") if batch else ("row", "col"),
        lambda axes, loops: (*axes[: batch + 1], loops[0]),
        lambda axes, loops: (*axes[:batch], loops[0], axes[-1]),
        (left, right),
        (batch, 1),
    )


def _matrix_vector_product(c: Call, name: str, matrix: Value, vector: Value) -> Value:
    return _sum_of_products(
        c,
        name,
        matrix.shape[:-1],
        ("row",) if len(matrix.shape) == 2 else (),
        lambda axes, loops: (*axes, loops[0]),
        lambda axes, loops: loops,
        (matrix, vector),
    )


@rule("mm", "bmm")
def _mm(c: Call) -> Results:
    product = _matrix_product(c, ("self", "mat2"), c.node.name)
    return c.new(product.load, 0, viewed=product)


@rule("addmm", "baddbmm", "addmv")
def _add_product(c: Call) -> Results:
    name = f"{c.node.name}_product"
    if c.operator == "addmv":
        product = _matrix_vector_product(c, name, c.value("mat"), c.value("vec"))
    else:
        product = _matrix_product(c, ("mat1", "mat2") if c.operator == "addmm" else ("batch1", "batch2"), name)
    alpha, beta = float(c.number("alpha", 1)), float(c.number("beta", 1))

    def body(index: Indices) -> Scalar:
        bias = c.scalar(c.node.arguments["self"], index, c.type.shape, c.dtype)
        return product.load(index) * alpha + bias * beta

    return c.new(body, 1)


def _with_bias(c: Call, product_named: Callable[[str], Value], channel: int) -> Value:
    """A product plus the operator's bias, if it has one, over the result's dimension `channel`."""
    bias = c.optional("bias")
    if bias is None:
        product = product_named(c.node.name)
        return c.new(product.load, 0, viewed=product)
    product = product_named(f"{c.node.name}_product")
    return c.new(lambda index: product.load(index) + cast(bias.load((index[channel],)), c.dtype), 1)


@rule("linear")
def _linear(c: Call) -> Results:
    source, weight = c.operand("input", MOST_INLINE), c.operand("weight", MOST_INLINE)
    rank = len(source.shape)
    names = {1: ("col",), 2: ("row", "col"), 3: ("b", "row", "col")}.get(rank, axis_names(rank))

    def product(name: str) -> Value:
        return _sum_of_products(
            c,
            name,
            c.type.shape,
            names,
            lambda axes, loops: (*axes[:-1], loops[0]),
            lambda axes, loops: (axes[-1], loops[0]),
            (source, weight),
            (0, rank - 1),
        )

    return _with_bias(c, product, -1)


@rule("convolution")
def _convolution(c: Call) -> Results:
    convolution = _Convolution(c, c.operand("input"), c.operand("weight"))
    return _with_bias(c, convolution.reduce, 1)


class _Convolution:
    """A convolution or transposed convolution as a sum over input channels and kernel positions."""

    def __init__(self, c: Call, source: Value, weight: Value):
        self.c, self.source, self.weight = c, source, weight
        self.rank = len(source.shape) - 2
        if len(c.type.shape) != self.rank + 2 or self.rank not in SPATIAL_AXES:
            raise Unsupported(f"convolution over {self.rank} dimensions")
        self.stride, self.padding, self.dilation = (
            c.sizes(name, self.rank) for name in ("stride", "padding", "dilation")
        )
        self.transposed, self.groups = bool(c.number("transposed", False)), c.size("groups")
        self.group_inputs = divide(source.shape[1], self.groups)[0]
        self.sorted = self._sort_weight() if self._shares_weights else None

    @property
    def _shares_weights(self) -> bool:
        """Whether many results read each weight, and a tile of these is cut from many channels, as sizes that are not
        known are taken to be."""
        if self.groups != ONE or product(self.weight.shape[2:]) == ONE:
            return False
        inputs, channels = self.group_inputs.constant, self.weight.shape[int(self.transposed)].constant
        positions = product((self.c.type.shape[0], *self.c.type.shape[2:])).constant
        many = positions is None or positions >= _MANY_POSITIONS
        is_sliced = inputs is None or 5 * inputs >= 4 * -(-inputs // _SLICE) * _SLICE
        return many and is_sliced and (channels is None or channels >= _MANY_CHANNELS)

    def _sort_weight(self) -> Value:
        """The weights as (taps, input channel, output channel), in memory."""
        order = (*range(2, self.rank + 2), int(not self.transposed), int(self.transposed))
        shape = tuple(self.weight.shape[dim] for dim in order)

        def body(index: Indices) -> Scalar:
            return self.weight.load(tuple(index[order.index(dim)] for dim in range(self.rank + 2)))

        found = Value("sorted_weight", TensorType(shape, self.weight.dtype), body)
        self.c.program.stored.append(self.c.program.materialize(found, (*KERNEL_AXES[self.rank], "ic", "oc")))
        return found

    def reduce(self, name: str) -> Value:
        batch = (0,) if self._is_pointwise else ()
        dtype = _common(self.weight, self.source)
        names = TAP_AXES if any(self._step(d) not in (ONE, None) for d in range(self.rank)) else KERNEL_AXES
        return self.c.program.reduce(
            name,
            TensorType(self.c.type.shape, self.c.type.dtype),
            ("n", "oc", *SPATIAL_AXES[self.rank]),
            Reduction("sum", self._extents, ("ic", *names[self.rank])),
            self._guarded_product,
            None
            if self._is_depthwise
            else Contraction(batch, (1,), self._weight_at, self._source_at, tuple(self._splits()), dtype=dtype),
        )

    @property
    def _is_depthwise(self) -> bool:
        """Whether each output channel has an input channel of its own, so that nothing is shared."""
        return self.groups != ONE and self.group_inputs == ONE

    def _splits(self) -> Iterator[Split]:
        """Groups of channels, and phases."""
        shape = self.c.type.shape
        if self.groups != ONE:
            yield Split(1, divide(shape[1], self.groups)[0], ("group", "oc"), False)
        for d, axis in enumerate(SPATIAL_AXES[self.rank]):
            if self.transposed and self.stride[d] != ONE and self._step(d) is not None:
                yield Split(2 + d, self.stride[d], (f"q{axis[1]}", f"phase_{axis[1]}"), True)

    def _step(self, d: int) -> Index | None:
        """How far apart those taps of a transposed convolution are that meet an output place; None if that is not
        known, and then all are tried."""
        stride, dilation = self.stride[d].constant, self.dilation[d].constant
        if not self.transposed or self.stride[d] == ONE:
            return ONE
        if dilation == 1:
            return self.stride[d]
        return None if stride is None or dilation is None else number(stride // math.gcd(stride, dilation))

    def _first_tap(self, axes: Indices, d: int) -> Index:
        """The first tap that meets an output place: o + padding - tap * dilation is a multiple of the stride there."""
        reach, step = axes[2 + d] + self.padding[d], self._step(d)
        if step is None or step == ONE:
            return ZERO
        if self.dilation[d] == ONE:
            return divide(reach, step)[1]
        shared = number((self.stride[d].constant or 1) // (step.constant or 1))
        inverse = int(pow(divide(self.dilation[d], shared)[0].constant or 1, -1, step.constant))
        return divide(divide(reach, shared)[0] * inverse, step)[1]

    def _extents(self, axes: Indices) -> Indices:
        return (self.group_inputs, *(self._taps(axes, d) for d in range(self.rank)))

    def _taps(self, axes: Indices, d: int) -> Index:
        """How many taps an output place meets."""
        size, step = self.weight.shape[2 + d], self._step(d)
        if not self.transposed or step is None or self.stride[d] == ONE:
            return size
        taps = divide(size - self._first_tap(axes, d) + step - 1, step)[0]
        shared = divide(self.stride[d], step)[0]
        missed = divide(axes[2 + d] + self.padding[d], shared)[1]  # a place between those that any tap meets
        return taps * (1 - minimum(missed, ONE))

    @property
    def _is_pointwise(self) -> bool:
        """Whether it is a matrix product for each image, over enough positions to be one of its own."""
        steps = {*self.weight.shape[2:], *self.stride}
        positions = product(self.source.shape[2:]).constant
        is_own = positions is None or positions >= _OWN_PRODUCT or self.c.program.alike
        return steps == {ONE} and set(self.padding) == {ZERO} and is_own

    def _group(self, axes: Indices) -> Index:
        if self.groups == ONE:
            return ZERO
        return divide(axes[1], divide(self.c.type.shape[1], self.groups)[0])[0]

    def _place(self, axes: Indices, loops: Indices) -> tuple[Indices, list[Scalar]]:
        """Where in the input a kernel position reads, and what must hold for it to be inside."""
        place: list[Index] = [axes[0], self._group(axes) * self.group_inputs + loops[0]]
        needed: list[Scalar] = []
        for d in range(self.rank):
            at, tests = self._along(axes[2 + d], axes, loops[1 + d], d)
            place.append(at)
            needed += tests
            is_padded = self.c.program.alike and self.padding[d] != ZERO
            inside = (inside_of if is_padded else within)(at, self.source.shape[2 + d])
            needed += [test for test in inside if not any(same(test, one) for one in needed)]
        return tuple(place), needed

    def _along(self, out: Index, axes: Indices, loop: Index, d: int) -> tuple[Index, list[Scalar]]:
        """The same along one dimension, without the tests that every place needs."""
        stride, padding, dilation, step = self.stride[d], self.padding[d], self.dilation[d], self._step(d)
        if not self.transposed:
            return out * stride - padding + loop * dilation, []
        if stride == ONE:
            return out + padding - loop * dilation, []
        if step is None:
            reach = out + padding - loop * dilation
            at, rest = divide(reach, stride)
            return at, [*(t for t in within(reach, reach + 1) if t.relation == ">="), Compare("bool", "==", rest, ZERO)]
        passed = divide(dilation * step, stride)[0] * loop
        if dilation == ONE:
            return divide(out + padding, stride)[0] - passed, []
        most = divide((step - 1) * dilation + stride - 1, stride)[0]  # so that what is divided is not negative
        first = out + padding + most * stride - self._first_tap(axes, d) * dilation
        return divide(first, stride)[0] - most - passed, []

    def _load(self, place: Indices) -> Scalar:
        return cast(self.source.load(place), self.c.dtype)

    def _source_at(self, axes: Indices, loops: Indices) -> Scalar:
        place, needed = self._place(axes, loops)
        return guarded(needed, self._load(place), 0)

    def _weight_at(self, axes: Indices, loops: Indices) -> Scalar:
        index = (axes[1], *loops)
        if self.transposed:
            within_group = axes[1] - self._group(axes) * self.weight.shape[1]
            taps = [
                self._first_tap(axes, d) + loops[1 + d] * (self._step(d) or ONE)  # every tap, if that is not known
                for d in range(self.rank)
            ]
            index = (self._group(axes) * self.group_inputs + loops[0], within_group, *taps)
        if self.sorted is not None:
            channels = index[:2] if self.transposed else index[1::-1]
            return cast(self.sorted.load((*index[2:], *channels)), self.c.dtype)
        return cast(self.weight.load(index), self.c.dtype)

    def _guarded_product(self, axes: Indices, loops: Indices) -> Scalar:
        place, needed = self._place(axes, loops)
        return guarded(needed, self._load(place) * self._weight_at(axes, loops), 0)


@rule("_trilinear")
def _trilinear(c: Call) -> Results:
    """The sum over `sumdim` of the product of three tensors, each with dimensions of size 1 put in."""
    operands = [(c.value(f"i{i}"), c.numbers(f"expand{i}")) for i in (1, 2, 3)]
    sums = c.numbers("sumdim")
    rank = len(operands[0][0].shape) + len(operands[0][1])
    own_dims = [[dim for dim in range(rank) if dim not in expanded] for _, expanded in operands]
    sizes: list[Index] = [ONE] * rank
    for (operand, _), own in zip(operands, own_dims, strict=True):
        for dim, size in zip(own, operand.shape, strict=True):
            sizes[dim] = size
    kept = [dim for dim in range(rank) if dim not in sums]

    def body(axes: Indices, loops: Indices) -> Scalar:
        places = dict(zip(kept, axes, strict=True)) | dict(zip(sums, loops, strict=True))
        one, two, three = (
            cast(operand.load(tuple(places[dim] for dim in own)), c.dtype)
            for (operand, _), own in zip(operands, own_dims, strict=True)
        )
        return one * two * three

    return c.program.reduce(
        c.node.name,
        TensorType(tuple(sizes[dim] for dim in kept), c.dtype),
        axis_names(len(kept)),
        Reduction("sum", fixed(tuple(sizes[dim] for dim in sums)), tuple(f"k{dim}" for dim in sums)),
        body,
    )


@rule("_cdist_forward")
def _cdist(c: Call) -> Results:
    one, two, order = c.operand("x1"), c.operand("x2"), float(c.number("p", 2))
    batch = len(one.shape) - 2

    def body(axes: Indices, loops: Indices) -> Scalar:
        left = cast(one.load((*axes[: batch + 1], loops[0])), c.dtype)
        right = cast(two.load((*axes[:batch], axes[-1], loops[0])), c.dtype)
        return raised(left - right, order)

    total = c.program.reduce(
        f"{c.node.name.strip('_')}_sum",
        TensorType(c.type.shape, c.dtype),
        (*(f"b{i}" for i in range(batch)), "row", "col"),
        Reduction(norm_kind(order), fixed((one.shape[-1],)), ("k",)),
        body,
    )
    return c.new(lambda index: rooted(total.load(index), order), 4)
