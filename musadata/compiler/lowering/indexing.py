"""Lowering of operators that read at places which other tensors name."""

from dataclasses import dataclass
from functools import reduce

from musadata.compiler.ir.captured_graph import Reference, TensorType
from musadata.compiler.ir.index_formulas import ONE, ZERO, Index, as_index
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.compiler.ir.program import Indices, Reduction, axis_names, fixed
from musadata.compiler.ir.scalar import (
    Among,
    Cast,
    Compare,
    Formula,
    Given,
    Literal,
    Named,
    Scalar,
    call,
    cast,
    choose,
    compute_type,
    guarded,
    opaque,
    within,
)
from musadata.compiler.lowering.reduction import reduce_over
from musadata.compiler.lowering.rules import Call, Results, Value, broadcast, cost_of, replaced, rule, without

MOST_ROUNDS = 8  # of a search for the largest few; with more, ranking is less work
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def position(value: Scalar, size: Index, *, may_be_negative: bool) -> Index:
    """A loaded index as part of an index formula; negative ones count from the end."""
    value = cast(value, "int64")
    if not may_be_negative:
        return opaque(value)
    wrapped = value + Formula("int64", size)
    return opaque(choose(value < 0, wrapped, value))


@rule("embedding")
def _embedding(c: Call) -> Results:
    weight, indices = c.value("weight"), c.value("indices")
    rank = len(indices.shape)

    def body(index: Indices) -> Scalar:
        row = position(indices.load(index[:rank]), weight.shape[0], may_be_negative=False)
        return weight.load((row, *index[rank:]))

    return c.new(body, 1 + cost_of(weight, indices))


@rule("index_select", "gather")
def _gather(c: Call) -> Results:
    source, chosen = c.value("self"), c.value("index")
    dim = c.dimension("dim", len(source.shape))

    def body(index: Indices) -> Scalar:
        place = chosen.load(index if c.operator == "gather" else index[dim : dim + 1])
        return source.load(replaced(index, dim, position(place, source.shape[dim], may_be_negative=False)))

    return c.new(body, 1 + cost_of(source, chosen))


@dataclass(frozen=True)
class _Chosen:
    """A tensor's shape, and the index tensors for some of its dimensions."""

    shape: Indices
    by_dim: dict[int, Value]

    @property
    def block(self) -> Indices:
        """The shape of the index tensors together."""
        width = max(len(value.shape) for value in self.by_dim.values())
        wide = [(*[ONE] * (width - len(value.shape)), *value.shape) for value in self.by_dim.values()]
        return tuple(next((size for size in sizes if size != ONE), ONE) for sizes in zip(*wide, strict=True))

    @property
    def start(self) -> int:
        """Where the block stands in the result: aten puts it where the indexed dimensions were if they are neighbours,
        and in front otherwise."""
        dims = sorted(self.by_dim)
        return dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0

    @property
    def result(self) -> Indices:
        """The shape of what is chosen."""
        others = [size for dim, size in enumerate(self.shape) if dim not in self.by_dim]
        return (*others[: self.start], *self.block, *others[self.start :])

    def place(self, index: Indices) -> Indices:
        """The index into the tensor for one into the result."""
        start, end = self.start, self.start + len(self.block)
        block, others = index[start:end], iter((*index[:start], *index[end:]))
        found = []
        for dim, size in enumerate(self.shape):
            value = self.by_dim.get(dim)
            if value is None:
                found.append(next(others))
            else:
                loaded = value.load(broadcast(block, value.shape))
                found.append(position(loaded, size, may_be_negative=_may_be_negative(value)))
        return tuple(found)


def _chosen(c: Call, source: Value) -> _Chosen:
    given = [c.resolve(item) if isinstance(item, Reference) else None for item in c.list_of("indices")]
    found = {dim: value for dim, value in enumerate(given) if value is not None}
    if any(value.dtype == "bool" for value in found.values()):
        raise Unsupported("indexing by a mask")
    return _Chosen(source.shape, found)


@rule("index", "_unsafe_index")
def _index(c: Call) -> Results:
    source = c.value("self")
    chosen = _chosen(c, source)
    return c.new(lambda index: source.load(chosen.place(index)), 2 + cost_of(source, *chosen.by_dim.values()))


def _may_be_negative(value: Value) -> bool:
    """Indices that were computed from positions never are; those that come from outside may be."""
    return value.buffer is not None and value.buffer.role in ("argument", "state")


@rule("scatter_add")
def _scatter_add(c: Call) -> Results:
    """A thread for each value adds it by an atomic. Where the type has none, every element of the result searches for
    what is added to it."""
    start, chosen, added = c.value("self"), c.value("index"), c.value("src")
    rank = len(start.shape)
    dim = c.dimension("dim", rank)

    def place(axes: Indices) -> Indices:
        return replaced(axes, dim, position(chosen.load(axes), start.shape[dim], may_be_negative=False))

    if c.type.dtype in _ATOMIC:
        spread = c.program.spread(
            f"{c.node.name}_sum", TensorType(start.shape, c.dtype), chosen.shape, added.load, place
        )
        return _with_start(c, start, spread)
    chosen, added = c.operand("index"), c.operand("src")

    def body(axes: Indices, loops: Indices) -> Scalar:
        place = replaced(axes, dim, loops[0])
        # The indices may cover less than the tensor in the other dimensions.
        covered = [test for d in range(rank) if d != dim for test in within(axes[d], chosen.shape[d])]
        meant = call("eq", "bool", cast(chosen.load(place), "int64"), Formula("int64", axes[dim]))
        return guarded([*covered, meant], cast(added.load(place), c.dtype), 0)

    total = c.program.reduce(
        f"{c.node.name}_sum",
        TensorType(start.shape, c.dtype),
        axis_names(rank),
        Reduction("sum", fixed((chosen.shape[dim],)), ("k",)),
        body,
    )
    return _with_start(c, start, total)


_ATOMIC = frozenset({"float32", "float64", "int32", "int64"})


def _with_start(c: Call, start: Value, total: Value) -> Value:
    """What is added, and what was there before."""
    if _is_zero(start):
        return total
    return c.new(lambda index: cast(start.load(index), c.dtype) + total.load(index), 1 + start.cost)


def _is_zero(value: Value) -> bool:
    """Whether all elements are the constant 0."""
    found: Scalar = value.load(tuple(ZERO for _ in value.shape))
    while isinstance(found, (Named, Cast)):
        found = found.value if isinstance(found, Named) else found.argument
    return isinstance(found, Literal) and not isinstance(found.value, Given) and found.value == 0


@rule("index_put", "_unsafe_index_put")
def _index_put(c: Call) -> Results:
    """Values that are added to places which index tensors name; to write them would leave it to chance which stays."""
    start, values = c.value("self"), c.value("values")
    if not c.number("accumulate", False) or c.type.dtype not in _ATOMIC:
        raise Unsupported("writing to computed places")
    chosen, name = _chosen(c, start), f"{c.node.name}_sum"
    total = c.program.spread(
        name,
        TensorType(start.shape, c.dtype),
        chosen.result,
        lambda axes: values.load(broadcast(axes, values.shape)),
        chosen.place,
    )
    return _with_start(c, start, total)


@rule("topk", "sort")
def _ordered(c: Call) -> Results:
    """By ranks: an element's place in the order is the number of elements that go before it."""
    rank = len(c.value("self").shape)
    if not rank:
        raise Unsupported("the order of a single number")
    count = as_index(c.node.arguments["k"]).constant if c.operator == "topk" else None
    if count is not None and count <= MOST_ROUNDS and c.number("largest", True):
        return _best_few(c, count)
    source, dim = c.operand("self"), c.dimension("dim", rank, -1)
    descending = bool(c.number("descending", False) if c.operator == "sort" else c.number("largest", True))

    def goes_before(axes: Indices, loops: Indices) -> Scalar:
        values = source.load(axes), source.load(replaced(axes, dim, loops[0]))
        own, other = (Named(value.dtype, name, value) for name, value in zip(("own", "other"), values, strict=True))
        first, second = (other, own) if descending else (own, other)
        goes_first = Named("bool", "goes_first", _larger(first, second))
        same = Named("bool", "same", _neither_larger(own, other))
        tie = call("and", "bool", same, Compare("bool", "<", loops[0], axes[dim]))
        return cast(call("or", "bool", goes_first, tie), "int64")

    name, names = c.node.name, axis_names(rank)
    along = Reduction("sum", fixed((source.shape[dim],)), ("k",))
    ranks = c.program.reduce(f"{name}_rank", TensorType(source.shape, "int64"), names, along, goes_before)
    results: list[Value | None] = []
    for part, kind in zip(("values", "indices"), c.node.types, strict=True):
        assert kind is not None
        dtype = compute_type(kind.dtype)

        def found(axes: Indices, loops: Indices, part: str = part, dtype: str = dtype) -> Scalar:
            ranked = call("eq", "bool", ranks.load(replaced(axes, dim, loops[0])), Formula("int64", axes[dim]))
            element = source.load(replaced(axes, dim, loops[0])) if part == "values" else Formula("int64", loops[0])
            return choose(ranked, cast(element, dtype), 0)

        results.append(c.program.reduce(f"{name}_{part}", kind, names, along, found))
    return tuple(results)


def _best_few(c: Call, count: int) -> Results:
    """Round by round, the largest of what was not taken before."""
    source, name = c.operand("self"), c.node.name
    dim = c.dimension("dim", len(source.shape), -1)
    rounds: list[tuple[Value, Value]] = []

    for number in range(count):
        taken = [place for _, place in rounds]

        def left(value: Scalar, index: Indices, taken: list[Value] = taken) -> Scalar:
            own = Formula("int64", index[dim])
            tests = [call("ne", "bool", own, place.load(without(index, (dim,)))) for place in taken]
            free = reduce(lambda one, other: call("and", "bool", one, other), tests) if tests else None
            return value if free is None else Among(value.dtype, free, value)

        which = f"{name}_{_ORDINALS[number]}" if count > 1 else name
        best = reduce_over(c, source, (dim,), "max", f"{which}_value", source.dtype, left)
        rounds.append((best, reduce_over(c, source, (dim,), "argmax", f"{which}_index", "int64", left)))
    results: list[Value | None] = []
    for part, kind in enumerate(c.node.types):
        assert kind is not None

        def chosen(index: Indices, part: int = part) -> Scalar:
            own, (*others, last) = without(index, (dim,)), [one[part] for one in rounds]
            known = index[dim].constant
            if known is not None:
                return rounds[known][part].load(own)
            value = last.load(own)
            for end, one in reversed(list(enumerate(others, 1))):
                value = choose(Compare("bool", "<", index[dim], as_index(end)), one.load(own), value)
            return value

        results.append(Value(f"{name}_{('values', 'indices')[part]}", kind, chosen, count - 1))
    return tuple(results)


def _larger(one: Scalar, other: Scalar) -> Scalar:
    """one > other, where NaN is larger than any number."""
    return _or_nan(one > other, one, call("not", "bool", call("isnan", "bool", other)))


def _neither_larger(one: Scalar, other: Scalar) -> Scalar:
    return _or_nan(call("eq", "bool", one, other), one, call("isnan", "bool", other))


def _or_nan(test: Scalar, one: Scalar, about_other: Scalar) -> Scalar:
    """The test, or for floating point also that `one` is NaN and something is true of the other value."""
    if not one.dtype.startswith("float"):
        return test
    return call("or", "bool", test, call("and", "bool", call("isnan", "bool", one), about_other))
