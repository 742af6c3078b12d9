"""Lowering of operators that only move elements: every one is a change of the index."""

from collections.abc import Callable, Sequence
from itertools import accumulate

from musadata.compiler.ir.index_formulas import (
    ONE,
    ZERO,
    Index,
    Operation,
    Variable,
    as_index,
    divide,
    maximum,
    minimum,
    of,
    product,
)
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.compiler.ir.program import Indices
from musadata.compiler.ir.scalar import Choose, Compare, Scalar, cast, choose, guarded, within
from musadata.compiler.lowering.rules import Call, Results, Value, broadcast, cost_of, replaced, rule


def viewed(c: Call, source: Value, change: Callable[[Indices], Indices]) -> Value:
    """The result as a view of `source`: its element at an index is the source's element at `change` of the index."""
    return c.new(lambda index: source.load(change(index)), source.cost, viewed=source)


def gathered(c: Call, source: Value, change: Callable[[Indices], Indices], cost: int) -> Value:
    """As `viewed`, where computing the source's index costs something."""
    return c.new(lambda index: source.load(change(index)), cost + source.cost)


@rule("view", "_unsafe_view", "reshape", "view_copy", "unsqueeze", "squeeze")
def _view(c: Call) -> Results:
    source = c.value("self")

    def body(index: Indices) -> Scalar:
        return source.load(reshape_index(index, c.type.shape, source.shape))

    return Value(source.name, c.type, body, source.cost, viewed=source)


def reshape_index(index: Indices, shape: Indices, source: Indices) -> Indices:
    """The index into `source` of the element at `index` of its reshaping to `shape`.

    Dimensions are matched in the smallest groups of equal product, so that untouched ones keep their index.
    """
    found = [ZERO] * len(source)
    left = [i for i, size in enumerate(shape) if size != ONE]
    right = [i for i, size in enumerate(source) if size != ONE]
    while left and right:
        take, give = 1, 1
        while (size := product(shape[i] for i in left[:take])) != (
            wanted := product(source[i] for i in right[:give])
        ) and (take < len(left) or give < len(right)):
            grow_source = give < len(right) and (take == len(left) or divide(size, wanted)[1] == ZERO)
            take, give = (take, give + 1) if grow_source else (take + 1, give)
        flat = flatten([index[i] for i in left[:take]], [shape[i] for i in left[:take]])
        for position in reversed(right[1:give]):
            flat, found[position] = divide(flat, source[position])
        found[right[0]] = flat
        left, right = left[take:], right[give:]
    return tuple(found)


def flatten(index: Sequence[Index], shape: Sequence[Index]) -> Index:
    """The row-major position of an index; of one that was taken apart, the position that it was taken from."""
    flat = ZERO
    for position, size in zip(index, shape, strict=True):
        rest = position.atom
        if (
            isinstance(rest, Operation)
            and (rest.kind, rest.right) == ("%", size)
            and divide(rest.left, size)[0] == flat
        ):
            flat = rest.left
        else:
            flat = flat * size + position
    return flat


def unflatten(place: Index, extents: Sequence[Index]) -> Indices:
    """The index at a row-major position."""
    index: list[Index] = []
    for extent in reversed(extents[1:]):
        place, position = divide(place, extent)
        index.insert(0, position)
    return (place, *index)


def flat_position(axes: Sequence[Variable]) -> Index:
    """The flat position over some axes."""
    return flatten([of(axis) for axis in axes], [axis.extent for axis in axes])


@rule("permute", "transpose", "t", "numpy_T")
def _permute(c: Call) -> Results:
    source = c.value("self")
    rank = len(source.shape)
    order = list(range(rank))
    if c.operator == "permute":
        order = [dim % rank for dim in c.numbers("dims")]
    elif c.operator == "transpose":
        one, two = c.dimension("dim0", rank), c.dimension("dim1", rank)
        order[one], order[two] = order[two], order[one]
    elif rank == 2:
        order = [1, 0]
    return viewed(c, source, lambda index: tuple(index[order.index(dim)] for dim in range(rank)))


@rule("as_strided")
def _as_strided(c: Call) -> Results:
    """Strides of a contiguous tensor, as adaptive pooling to one element gives its result."""
    source, sizes, strides = c.value("self"), c.sizes("size"), c.sizes("stride")
    expected, is_contiguous = ONE, source.viewed is None and sizes == source.shape
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        is_contiguous = is_contiguous and (size == ONE or stride == expected)
        expected = expected * size
    if not is_contiguous or (c.has("storage_offset") and c.size("storage_offset") != ZERO):
        raise Unsupported("as_strided to other strides")
    return viewed(c, source, lambda index: index)


@rule("expand", "broadcast_to")
def _expand(c: Call) -> Results:
    source = c.value("self")
    return viewed(c, source, lambda index: broadcast(index, source.shape))


@rule("slice")
def _slice(c: Call) -> Results:
    source = c.value("self")
    dim = c.dimension("dim", len(source.shape))
    start, step = _bound(c, "start", source.shape[dim]), c.number("step", 1)
    return viewed(c, source, lambda index: replaced(index, dim, index[dim] * step + start))


def _bound(c: Call, name: str, size: Index) -> Index:
    """A start of a slice, counted from the front and inside of the dimension."""
    start = as_index(c.node.arguments.get(name) or 0)
    if start.constant is not None and start.constant < 0:
        return maximum(start + size, ZERO)
    return minimum(start, size)


def _inserted(index: Indices, dim: int, position: Index) -> Indices:
    """The index with one more position in front of a dimension."""
    return (*index[:dim], position, *index[dim:])


@rule("select")
def _select(c: Call) -> Results:
    source = c.value("self")
    dim, chosen = c.dimension("dim", len(source.shape)), c.size("index")
    if chosen.constant is not None and chosen.constant < 0:
        chosen = chosen + source.shape[dim]
    return viewed(c, source, lambda index: _inserted(index, dim, chosen))


@rule("split_with_sizes", "split", "unbind", "split_with_sizes_copy", "unbind_copy")
def _split(c: Call) -> Results:
    source = c.value("self")
    dim, unbind = c.dimension("dim", len(source.shape)), c.operator.startswith("unbind")
    pieces: list[Value | None] = []
    start = ZERO
    for number, kind in enumerate(c.node.types):
        assert kind is not None

        def piece(index: Indices, start: Index = start) -> Scalar:
            inner = _inserted(index, dim, start) if unbind else replaced(index, dim, index[dim] + start)
            return source.load(inner)

        pieces.append(Value(f"{c.node.name}_{number}", kind, piece, source.cost, viewed=source))
        start = start + (ONE if unbind else kind.shape[dim])
    return tuple(pieces)


@rule("getitem")
def _getitem(c: Call) -> Results:
    found = c.values[c.node.arguments["0"].node]
    assert isinstance(found, tuple)
    value = found[int(c.node.arguments["1"])]
    if value is None:
        raise Unsupported(f"a result of {c.node.name.rstrip('_0123456789')} that is not lowered")
    return value


@rule("cat")
def _cat(c: Call) -> Results:
    # aten ignores empty one-dimensional tensors here, whatever the rank of the others.
    sources = [c.resolve(item) for item in c.list_of("tensors")]
    sources = [source for source in sources if source.shape != (ZERO,)]
    dim = c.dimension("dim", len(sources[0].shape))
    ends = list(accumulate(source.shape[dim] for source in sources))

    def piece(source: Value, end: Index, index: Indices) -> Scalar:
        return cast(source.load(replaced(index, dim, index[dim] - (end - source.shape[dim]))), c.dtype)

    def body(index: Indices) -> Scalar:
        *others, last = zip(sources, ends, strict=True)
        value = piece(*last, index)
        for source, end in reversed(others):
            value = choose(Compare("bool", "<", index[dim], end), piece(source, end, index), value)
        return value

    return c.new(body, len(sources) + cost_of(*sources))


@rule("constant_pad_nd")
def _constant_pad(c: Call) -> Results:
    source = c.value("self")
    before = _padding(c, "pad", len(source.shape))

    def body(index: Indices) -> Scalar:
        inner = tuple(position - pad for position, pad in zip(index, before, strict=True))
        needed = [
            test
            for position, size, pad, out in zip(inner, source.shape, before, c.type.shape, strict=True)
            if not (pad == ZERO and out == size)
            for test in within(position, size)
        ]
        return guarded(needed, source.load(inner), c.number("value", 0))

    return c.new(body, 2 + source.cost)


def _padding(c: Call, name: str, rank: int) -> list[Index]:
    """Padding before each dimension, front to back; aten lists pairs from the last dimension on."""
    pads = c.sizes(name)
    before = [ZERO] * rank
    for position in range(len(pads) // 2):
        before[rank - 1 - position] = pads[2 * position]
    return before


@rule("circular_pad", *(f"{kind}_pad{n}d" for kind in ("reflection", "replication") for n in (1, 2, 3)))
def _edge_pad(c: Call) -> Results:
    source = c.value("input" if c.operator == "circular_pad" else "self")
    before = _padding(c, "padding", len(source.shape))
    kind = c.operator.split("_")[0]

    def source_position(position: Index, pad: Index, size: Index, out: Index) -> Index:
        if pad == ZERO and out == size:
            return position
        if kind == "circular":
            # One length is added before the remainder is taken: no padding is longer than what it wraps around.
            return divide(position + size - pad, size)[1]
        place, last = position - pad, size - 1
        if kind == "replication":
            return minimum(maximum(place, ZERO), last)
        place = maximum(place, -place)
        return minimum(place, last * 2 - place)

    def change(index: Indices) -> Indices:
        return tuple(map(source_position, index, before, source.shape, c.type.shape))

    return gathered(c, source, change, 2)


@rule("flip")
def _flip(c: Call) -> Results:
    source = c.value("self")
    dims = {dim % len(source.shape) for dim in c.numbers("dims")}

    def change(index: Indices) -> Indices:
        pairs = enumerate(zip(index, source.shape, strict=True))
        return tuple(size - 1 - position if dim in dims else position for dim, (position, size) in pairs)

    return viewed(c, source, change)


@rule("roll")
def _roll(c: Call) -> Results:
    source = c.value("self")
    shifts, dims = c.numbers("shifts"), c.numbers("dims")

    def rolled(position: Index, shift: int, size: Index) -> Index:
        back = as_index(-shift) if shift < 0 else size - as_index(shift) % size
        return (position + back) % size

    def change(index: Indices) -> Indices:
        if not dims:
            total = product(source.shape)
            flat = rolled(flatten(index, source.shape), shifts[0], total)
            return reshape_index((flat,), (total,), source.shape)
        inner = list(index)
        for shift, dim in zip(shifts, dims, strict=True):
            inner[dim] = rolled(index[dim], shift, source.shape[dim])
        return tuple(inner)

    return gathered(c, source, change, 1)


@rule("repeat")
def _repeat(c: Call) -> Results:
    source = c.value("self")

    def change(index: Indices) -> Indices:
        inner = index[len(index) - len(source.shape) :]
        return tuple(divide(position, size)[1] for position, size in zip(inner, source.shape, strict=True))

    return gathered(c, source, change, 1)


@rule("slice_scatter")
def _scatter_slice(c: Call) -> Results:
    source, patch = c.value("self"), c.value("src")
    dim = c.dimension("dim", len(source.shape))
    start = _bound(c, "start", source.shape[dim])
    if int(c.number("step", 1)) != 1:
        raise Unsupported("slice_scatter with a step")

    def body(index: Indices) -> Scalar:
        place = index[dim] - start
        value = cast(patch.load(replaced(index, dim, place)), c.dtype)
        for test in within(place, patch.shape[dim]):
            value = Choose(c.dtype, test, value, source.load(index))
        return value

    return c.new(body, 2 + cost_of(source, patch))


@rule("diagonal")
def _diagonal(c: Call) -> Results:
    source = c.value("self")
    rank, offset = len(source.shape), int(c.number("offset"))
    one, two = c.dimension("dim1", rank, 0), c.dimension("dim2", rank, 1)

    def change(index: Indices) -> Indices:
        inner = list(index[:-1])
        for dim, shift in sorted(((one, max(-offset, 0)), (two, max(offset, 0)))):
            inner.insert(dim, index[-1] + shift)
        return tuple(inner)

    return viewed(c, source, change)


@rule("unfold")
def _unfold(c: Call) -> Results:
    source = c.value("self")
    dim, step = c.dimension("dimension", len(source.shape)), c.size("step")
    return viewed(c, source, lambda index: replaced(index[:-1], dim, index[dim] * step + index[-1]))


@rule("im2col")
def _im2col(c: Call) -> Results:
    source = c.value("self")
    kernel, dilation, padding, stride = (c.sizes(name, 2) for name in ("kernel_size", "dilation", "padding", "stride"))
    height, width = source.shape[-2:]
    reach = dilation[1] * (kernel[1] - 1) + 1
    across = divide(width + padding[1] * 2 - reach, stride[1])[0] + 1

    def body(index: Indices) -> Scalar:
        rest, kw = divide(index[-2], kernel[1])
        channel, kh = divide(rest, kernel[0])
        oh, ow = divide(index[-1], across)
        h = oh * stride[0] - padding[0] + kh * dilation[0]
        w = ow * stride[1] - padding[1] + kw * dilation[1]
        value = source.load((*index[:-2], channel, h, w))
        return guarded([*within(h, height), *within(w, width)], value, 0)

    return c.new(body, 4 + source.cost)
