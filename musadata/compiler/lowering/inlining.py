"""Pointwise values that are computed where they are read, instead of in a kernel of their own.

Lowering keeps a value in memory where it might be computed twice. Once all loops are known, it can be seen which values
are read once, or are so cheap that a second computation costs less than a round trip through memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from musadata.compiler.ir.index_formulas import Index, Variable, not_negative, product
from musadata.compiler.ir.program import Indices, Loop
from musadata.compiler.ir.scalar import MATH_FUNCTIONS, Buffer, Call, Choose, Load, Named, Scalar, same
from musadata.compiler.lowering.loop_points import value_of, variables_of
from musadata.compiler.lowering.rewriting import replace_loads

_Body = Callable[[Indices, Indices], Scalar]
REPEATED_COST = 3  # a value that a reader needs several times is computed anew each time up to this cost
BROADCAST_COST = 5  # the same where elements are only stored beside each other, for which memory is waited
DIVISION_COST = 3  # what a division adds where arithmetic is waited for, as in a product, and not memory
SHARED_COST = 16  # a value that several kernels read is computed in each up to this cost of all but one together
LONGEST_VALUE = 120  # operations: a longer value is a kernel of its own, so that each can be read
_HEAVY = frozenset((*MATH_FUNCTIONS, "pow", "sigmoid", "silu", "gelu", "gelu_tanh"))


def read_loops(loops: Sequence[Loop], returned: set[Buffer]) -> list[Loop]:
    """The loops whose buffers are returned, or read by such a loop: of a maximum and its place, say, one may do."""
    loops = _ordered(loops)
    wanted, kept = set(returned), []
    stepped = (load for loop in loops if loop.steps for load in value_of(loop)[0].loads)
    wanted |= {load.buffer.alias for load in stepped if load.buffer.alias}
    for loop in reversed(loops):
        if loop.buffer in wanted:
            kept.append(loop)
            wanted |= {load.buffer for load in value_of(loop)[0].loads}
    return kept[::-1]


def _ordered(loops: Sequence[Loop]) -> list[Loop]:
    """The loops, each after those that fill what it reads: a value may have got a buffer for a later reader only. What
    the host does step by step stays where it is."""
    makers = {loop.buffer: loop for loop in loops if not loop.steps}
    placed: dict[Loop, None] = {}

    def place(loop: Loop) -> None:
        if loop in placed:
            return
        for load in value_of(loop)[0].loads if not loop.steps else ():
            maker = makers.get(load.buffer, loop)
            if maker is not loop:
                place(maker)
        placed[loop] = None

    for loop in loops:
        place(loop)
    return list(placed)


def without_repeats(loops: Sequence[Loop], returned: set[Buffer]) -> list[Loop]:
    """The loops without reductions that do the same as one before: the sum of a mean and of a variance, say."""
    kept: list[Loop] = []
    made: dict[Buffer, Buffer] = {}

    def known(load: Load) -> Scalar | None:
        other = made.get(load.buffer)
        return None if other is None else replace(load, buffer=other)

    for loop in loops:
        new = replace(loop, body=_rewritten(loop, known)) if made else loop
        same_as = next((other for other in kept if _is_repeat(new, other)), None)
        if same_as is None or loop.buffer in returned:
            kept.append(new)
        else:
            made[loop.buffer] = same_as.buffer
    return kept


def _rewritten(loop: Loop, change: Callable[[Load], Scalar | None]) -> Callable[[Indices, Indices], Scalar]:
    return lambda axes, inner: replace_loads(loop.body(axes, inner), change, {})


def _is_repeat(one: Loop, other: Loop) -> bool:
    if one.reduction is None or other.reduction is None or one.reduction.kind != other.reduction.kind:
        return False
    if any(loop.contraction or loop.attends or loop.steps or loop.spread or loop.scan for loop in (one, other)):
        return False
    if (one.shape, one.buffer.dtype) != (other.shape, other.buffer.dtype):
        return False
    axes, _ = variables_of(other.names, other.shape)
    extents = [loop.reduction.extents(axes) for loop in (one, other) if loop.reduction]
    if extents[0] != extents[1]:
        return False
    inner, _ = variables_of(tuple(f"{name}_inner" for name in other.reduction.names), extents[0])
    return same(one.body(axes, inner), other.body(axes, inner))


@dataclass(frozen=True)
class _Read:
    """That a loop reads a buffer at an index, in terms of its own variables."""

    reader: Loop
    index: Indices
    variables: tuple[Variable, ...]


def inline_pointwise(loops: Sequence[Loop], returned: set[Buffer], *, reductions_apart: bool = False) -> list[Loop]:
    """The loops without those whose elements their readers can compute themselves.

    `returned` are buffers that must end up in memory. With `reductions_apart`, reductions compute
    nothing that several tensors go into: then layers that differ there share their reductions.
    """
    kept = {loop.buffer: loop for loop in loops}
    values = {key: value_of(loop) for key, loop in kept.items()}
    ended: set[Buffer] = set()  # what kernels of reductions, products aside, end with
    for key, (value, variables) in list(values.items()):
        loop = kept[key]
        ends = any(load.buffer in ended for load in values[key][0].loads)
        if (loop.reduction and not loop.contraction) or (ends and _ends_reduction(value, variables, kept)):
            ended.add(key)
        if not loop.is_pointwise or loop.steps or key in returned or _ends_reduction(value, variables, kept):
            continue
        value = values[key][0]
        reads = [read for other, (body, axes) in values.items() for read in _reads(loop, kept[other], body, axes)]
        apart = reductions_apart and len({load.buffer for load in value.loads}) > 1
        if apart and any(read.reader.reduction for read in reads):
            continue
        if reads and _is_inlined(loop, value, reads, in_product=not (reductions_apart or ends)):
            del kept[key], values[key]
            for buffer in dict.fromkeys(read.reader.buffer for read in reads):
                kept[buffer] = _computing(kept[buffer], loop)
                values[buffer] = value_of(kept[buffer])
    return list(kept.values())


def _reads(loop: Loop, reader: Loop, value: Scalar, variables: tuple[Variable, ...]) -> Iterator[_Read]:
    for index in dict.fromkeys(load.index for load in value.loads if load.buffer is loop.buffer):
        yield _Read(reader, index, variables)


def _ends_reduction(value: Scalar, variables: tuple[Variable, ...], loops: Mapping[Buffer, Loop]) -> bool:
    """Whether the value finishes results of a reduction one by one (a bias, an activation): its kernel then does so."""
    made = ((load, loops.get(load.buffer)) for load in value.loads)
    ended = (load for load, maker in made if maker and not maker.is_pointwise)
    return any(_varies_with(load.index) >= set(variables) for load in ended)


def _is_inlined(loop: Loop, value: Scalar, reads: Sequence[_Read], *, in_product: bool) -> bool:
    """`in_product` tells whether a product may compute it: a reduction before it would do so in its own kernel."""
    cost, length = _cost(value), sum(isinstance(node, Call) for node in value.walk())
    if any(read.reader.steps for read in reads) or length > LONGEST_VALUE:
        return False
    if not value.variables:
        return cost <= SHARED_COST  # one element, which a thread computes before its loops
    if any(read.reader.contraction is not None for read in reads):
        cost += sum(isinstance(node, Call) and node.operation == "div" for node in value.walk()) * DIVISION_COST
        return in_product and len(reads) == 1 and cost <= REPEATED_COST and _is_read_once(value)
    if any(_repeats(read, loop) for read in reads):
        if any(read.reader.reduction for read in reads):
            return cost <= REPEATED_COST
        return cost <= (BROADCAST_COST if any(value.loads) else SHARED_COST)
    if len(reads) > 1 and all(read.reader.reduction is None and _is_own_point(read) for read in reads):
        return False  # fusion computes it once for the readers that share its points
    return cost * (len(reads) - 1) <= SHARED_COST


def _is_read_once(value: Scalar) -> bool:
    """Whether an element is made from one of a tensor as large as the value, at a place that is not itself read: then
    a product reads no more than it would of the stored value."""
    if any(load.children for load in value.loads):
        return False
    return _most_loads(value, value.variables) <= 1


def _most_loads(value: Scalar, variables: frozenset[Variable]) -> int:
    """How many elements of tensors with all the axes are read for one of the value, at most."""
    if isinstance(value, Choose):
        return _most_loads(value.condition, variables) + max(_most_loads(x, variables) for x in (value.yes, value.no))
    is_large = isinstance(value, Load) and _varies_with(value.index) == variables
    return is_large + sum(_most_loads(child, variables) for child in value.children)


def _is_own_point(read: _Read) -> bool:
    """Whether the reader stores its element where it reads one."""
    return tuple(index.variable for index in read.index if index.terms) == read.variables


def _cost(value: Scalar) -> int:
    """About how many operations an element takes."""
    return sum((4 if node.operation in _HEAVY else 1) for node in value.walk() if isinstance(node, Call))


def _varies_with(index: Indices) -> set[Variable]:
    return {variable for position in index for variable in position.variables}


def _repeats(read: _Read, loop: Loop) -> bool:
    """Whether a reader may need elements more than once, so that it computes more of them than there are: it does not
    move along an axis of its own, or windows overlap."""
    if _varies_with(read.index) < set(read.variables):
        return True
    if all(_is_injective(position) for position in read.index):
        return False
    return not not_negative(product(loop.buffer.shape) - product(v.extent for v in read.variables))


def _is_injective(position: Index) -> bool:
    """Whether different values of the variables give different positions, as `2 * i + j` does for j below 2."""
    steps = []
    for monomial, coefficient in position.terms:
        if len(monomial) > 1 or (monomial and not isinstance(monomial[0], Variable)):
            return False
        if monomial:
            steps.append((abs(coefficient), monomial[0]))
    reach = 0
    for step, variable in sorted(steps, key=lambda pair: pair[0]):
        if step <= reach:
            return False
        extent = variable.extent.constant  # type: ignore[union-attr]
        reach = reach + step * (extent - 1) if extent is not None else step * 2**62
    return True


def _computing(reader: Loop, loop: Loop) -> Loop:
    """The reader with the loop's value in place of its elements."""
    done: dict[Indices, Scalar] = {}

    def value_at(load: Load) -> Scalar | None:
        if load.buffer is not loop.buffer:
            return None
        if load.index not in done:
            value = loop.body(load.index, ())
            done[load.index] = Named(value.dtype, loop.buffer.name, value)
        return done[load.index]

    def computing(given: _Body) -> _Body:
        return lambda axes, inner: replace_loads(given(axes, inner), value_at, {})

    product_of = reader.contraction
    if product_of is not None:
        product_of = replace(product_of, left=computing(product_of.left), right=computing(product_of.right))
    return replace(reader, body=computing(reader.body), contraction=product_of)
