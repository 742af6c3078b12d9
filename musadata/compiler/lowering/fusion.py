"""Fusion: which loop nests share a kernel, and the order of the stages in each kernel.

A kernel works on one point of its axes at a time. There it runs a sequence of stages: a reduction over inner loops,
whose result stays in a register, or a store of one element or over inner loops. A softmax is one kernel over rows with
the stages maximum, sum, store; a matrix product with bias is one kernel over elements with a sum and a store.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from musadata.compiler.ir.index_formulas import (
    ONE,
    ZERO,
    Index,
    Operation,
    Variable,
    divide,
    of,
)
from musadata.compiler.ir.program import Contraction, Indices, Loop, Steps
from musadata.compiler.ir.scalar import Buffer, Load, Local, Named, Scalar, plain
from musadata.compiler.lowering.loop_points import (
    axes_of,
    inner_axes,
    point,
    turned,
    unify,
    value_at,
    variables_of,
)
from musadata.compiler.lowering.rewriting import cuts, decided, replace_loads, substitute

_SPATIAL = ("d", "h", "w")
LOG_SUM = "log_sum"  # of attention to a part of the keys, beside its result
PARTS_AXIS = ("part",)  # what the parts of a split reduction are joined over


@dataclass(frozen=True, eq=False)
class Reduce:
    """A stage that reduces `value` over `axes` into the register `local`; stored too where `buffer` is given."""

    local: str
    kind: str
    axes: tuple[Variable, ...]
    loops: Indices  # the inner index: an axis of `axes`, or 0 for an inner loop of one step
    value: Scalar
    buffer: Buffer | None
    index: Indices
    dtype: str
    contraction: Contraction | None

    @property
    def operands(self) -> tuple[Scalar, Scalar]:
        """The factors of a contraction at the current point: left and right."""
        assert self.contraction is not None
        return self.contraction.left(self.index, self.loops), self.contraction.right(self.index, self.loops)


@dataclass(frozen=True, eq=False)
class Store:
    """A stage that stores `value` at `index` for all of `axes` (inside of the kernel's axes)."""

    buffer: Buffer
    axes: tuple[Variable, ...]
    index: Indices
    value: Scalar


@dataclass(frozen=True, eq=False)
class Scan:
    """A stage that adds `value` up along an axis: after it, the register `local` holds the result so far. Stages that
    follow are at the same point of the axis."""

    local: str
    kind: str
    axes: tuple[Variable]
    value: Scalar
    buffer: Buffer | None
    index: Indices
    dtype: str

    @property
    def place(self) -> int:
        """The number of its axis."""
        return next(number for number, axis in enumerate(self.index) if axis.variable == self.axes[0])


Stage = Reduce | Store | Scan


@dataclass(frozen=True, eq=False)
class Kernel:
    """One kernel, independent of how its work is dealt to threads."""

    name: str
    axes: tuple[Variable, ...]
    stages: tuple[Stage, ...]
    nodes: frozenset[str]  # of the graph, whose results it computes
    steps: Steps | None = None  # of the host, that launches it in each
    size_names: tuple[str, ...] = ()  # of the sizes and numbers that it may take

    @property
    def reductions(self) -> tuple[Reduce, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Reduce))

    @property
    def attends(self) -> bool:
        return any(stage.kind == "attention" for stage in self.reductions)

    @property
    def stores(self) -> tuple[Store, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Store))

    @property
    def scans(self) -> tuple[Scan, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Scan))

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """Buffers that it fills."""
        return tuple(dict.fromkeys(stage.buffer for stage in self.stages if stage.buffer is not None))

    @property
    def constants(self) -> tuple[Buffer, ...]:
        """Small constant tensors that it reads."""
        found = [load.buffer for stage in self.stages for load in stage.value.loads if load.buffer.role == "constant"]
        return tuple(dict.fromkeys(found))

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """Buffers that it reads, in the order of first use."""
        found = [load.buffer for stage in self.stages for load in stage.value.loads if load.buffer.role != "constant"]
        return tuple(dict.fromkeys(found))


@dataclass(eq=False)
class _Member:
    """A loop in a group: its own axes as formulas of the group's, and the inner axes that only it has."""

    loop: Loop
    axes: Indices
    inner: tuple[Variable, ...]


@dataclass(eq=False)
class _Group:
    axes: tuple[Variable, ...]
    members: list[_Member] = field(default_factory=list)

    def held(self, buffer: Buffer) -> _Member | None:
        """The member whose result at a point of the group is in a register when it fills this buffer."""
        found = next((m for m in self.members if m.loop.buffer is buffer and not m.inner), None)
        return None if found and found.loop.spread else found

    def fills(self, buffer: Buffer) -> bool:
        return any(member.loop.buffer is buffer for member in self.members)

    @property
    def reduces(self) -> bool:
        return any(member.loop.reduction is not None for member in self.members)

    @property
    def scanned(self) -> tuple[Variable, ...]:
        """The axis along which it scans, if it does."""
        return self.members[0].inner if self.members[0].loop.scan else ()


def group_loops(
    loops: Sequence[Loop],
    returned: set[Buffer],
    *,
    columns_apart: bool = False,
    fused: bool = True,
) -> list[Kernel]:
    """Kernels for all loops, in an order in which every buffer is filled before it is read.

    `returned` are buffers that must end up in memory. With `columns_apart`, what reads statistics
    of columns at every element of them has a kernel of its own: then layers that differ there share the statistics.
    """
    groups: list[_Group] = []
    for loop in loops:
        is_alone = loop.spread or loop.attends or not fused
        if is_alone or not (_join(loop, groups, columns_apart) or (not columns_apart and _join_sibling(loop, groups))):
            groups.append(_alone(loop))
    read = _read_from_memory(groups)
    return [_kernel(group, read | returned) for group in groups]


def _alone(loop: Loop) -> _Group:
    axes, variables = axes_of(loop)
    inner = tuple(v for v in variables if loop.scan and axes[loop.scan.axis].variable == v)
    return _Group(tuple(v for v in variables if v not in inner), [_Member(loop, axes, inner)])


def _join(loop: Loop, groups: list[_Group], columns_apart: bool) -> bool:
    """Add a loop to a group that it depends on, if it reads only results there that a thread holds at the loop's own
    point: to a product if there is one, whose kernel it can end, or else to the last. The group is put behind all
    others if the loop reads what is made after it."""
    axes, variables = _split_axes(loop, *axes_of(loop), groups)
    axes = _turned_axes(loop, axes, variables, groups)
    value = value_at(loop, axes, variables)
    depends = [group for group in groups if any(group.fills(load.buffer) for load in value.loads)]
    products = [group for group in depends if any(member.loop.contraction for member in group.members)]
    for group in dict.fromkeys((*products, *reversed(depends))):
        is_last = group is depends[-1]
        if (is_last or _may_be_last(group, groups)) and _take(group, loop, axes, variables, columns_apart):
            if not is_last:
                groups.remove(group)
                groups.append(group)
            return True
    return False


def _may_be_last(group: _Group, groups: Sequence[_Group]) -> bool:
    """Whether no group after this one reads its results; the host goes through some step by step, in their order."""
    later = groups[groups.index(group) + 1 :]
    if any(member.loop.steps for other in (group, *later) for member in other.members):
        return False
    return not any(group.fills(load.buffer) for other in later for load in _loads(other))


def _take(group: _Group, loop: Loop, axes: Indices, variables: tuple[Variable, ...], columns_apart: bool) -> bool:
    """Add a loop to a group, if it reads its results only at its own point."""
    if loop.steps is not group.members[0].loop.steps:
        return False
    if loop.scan or group.scanned:
        return bool(group.scanned) and _join_scan(loop, group)
    if loop.reduction is not None and group.members[0].loop.attends:
        return False
    change: dict[Variable, Index] | None = None
    for load in value_at(loop, axes, variables).loads:
        if not group.fills(load.buffer):
            continue
        member = group.held(load.buffer)
        found = unify(member.axes, load.index, group.axes, variables) if member else None
        if found is None or (change is not None and found != change):
            return False
        change = found
    assert change is not None
    outer = point(change, group.axes, variables)
    if outer is None or (loop.reduction is not None and len(outer) != len(variables)):
        return False
    if loop.reduction is None and any(_needs_grid(m.loop) for m in group.members) and len(outer) != len(variables):
        return False
    if columns_apart and loop.reduction is None and outer != variables[: len(outer)]:
        return False
    group.members = [replace(m, axes=tuple(substitute(axis, change) for axis in m.axes)) for m in group.members]
    group.axes = outer
    group.members.append(_Member(loop, axes, tuple(v for v in variables if v not in outer)))
    return True


def _loads(group: _Group) -> Iterator[Load]:
    for member in group.members:
        yield from value_at(member.loop, member.axes, (*group.axes, *member.inner)).loads


def _join_sibling(loop: Loop, groups: list[_Group]) -> bool:
    """Add a loop to a group that goes through the same elements for other results, so that they are read once."""
    axes, variables = axes_of(loop)
    value = value_at(loop, axes, variables)
    made = max((i for i, group in enumerate(groups) if any(group.fills(x.buffer) for x in value.loads)), default=-1)
    makers = {member.loop.buffer: member.loop for group in groups for member in group.members}
    for group in groups[made + 1 :]:
        if not all(map(_may_have_siblings, (loop, *(member.loop for member in group.members)))):
            continue
        if [axis.extent for axis in group.axes] != [variable.extent for variable in variables]:
            continue
        change = dict(zip(variables, map(of, group.axes), strict=True))
        mine = _Member(loop, tuple(substitute(axis, change) for axis in axes), ())
        if any(_goes_along(mine, member, group.axes, makers) for member in group.members):
            group.members.append(mine)
            return True
    return False


def _may_have_siblings(loop: Loop) -> bool:
    return not (loop.contraction or loop.scan or loop.spread or loop.steps or loop.attends)


def _goes_along(one: _Member, other: _Member, axes: tuple[Variable, ...], makers: Mapping[Buffer, Loop]) -> bool:
    """Whether two loops have the same steps and read the same elements in them, or what was made of these, or join as
    many parts."""
    if (one.loop.reduction is None) != (other.loop.reduction is None) or other.inner:
        return False
    (loops, inner), (others, steps) = (inner_axes(member.loop, member.axes, axes) for member in (one, other))
    if inner != steps:
        return False
    if one.loop.reduction is not None and one.loop.reduction.names == PARTS_AXIS:
        return True
    read, theirs = (_elements(x.loop.body(x.axes, y), makers) for x, y in ((one, loops), (other, others)))
    return not read.isdisjoint(theirs)


def _elements(value: Scalar, makers: Mapping[Buffer, Loop]) -> set[tuple[Buffer, Indices]]:
    """The elements that a value is made of, with those that elements were made of one by one."""
    found = set()
    for load in value.loads:
        found.add((load.buffer, load.index))
        maker = makers.get(load.buffer)
        if maker is not None and maker.is_pointwise and not maker.steps:
            found |= _elements(maker.body(load.index, ()), makers)
    return found


def _join_scan(loop: Loop, group: _Group) -> bool:
    """Add a loop to a scan, if it reads the results there at its own point; another scan, if it is along that axis."""
    axes, variables = variables_of(loop.names, loop.shape)
    change: dict[Variable, Index] = {}
    for load in value_at(loop, axes, variables).loads:
        member = next((m for m in group.members if m.loop.buffer is load.buffer), None)
        for known, wanted in zip(member.axes, load.index, strict=True) if member else ():
            variable = wanted.variable
            if variable is None and (back := turned(wanted)) is not None:
                variable, known = back, back.extent - 1 - known
            if (variable is None) != (not known.variables) or (variable is None and wanted != known):
                return False
            if variable is not None and change.setdefault(variable, known) != known:
                return False
    held = {v for index in change.values() for v in index.variables}
    if loop.reduction or set(change) != set(variables) or held != {*group.axes, *group.scanned}:
        return False
    axes = tuple(substitute(axis, change) for axis in axes)
    if loop.scan and axes[loop.scan.axis].variable not in group.scanned:
        return False
    group.members.append(_Member(loop, axes, group.scanned))
    return True


def _needs_grid(loop: Loop) -> bool:
    """Whether what reads its results at more points than it has is better off with a grid of its own."""
    return loop.contraction is not None or (loop.reduction is not None and loop.reduction.names == PARTS_AXIS)


def _split_axes(
    loop: Loop, axes: Indices, variables: tuple[Variable, ...], groups: list[_Group]
) -> tuple[Indices, tuple[Variable, ...]]:
    """Split axes where results are read at quotients of them: c into (group, member) as group normalisation does,
    channels into (head, member), rows and columns of shuffled pixels."""
    while (found := _divided(loop, axes, variables, groups)) is not None:
        variable, size = found
        outer, inner = _halves(variable, size, {v.name for v in variables})
        change = {variable: of(outer) * size + of(inner)}
        pieces = [(outer, inner) if v == variable else (v,) for v in variables]
        axes, variables = tuple(substitute(a, change) for a in axes), tuple(v for piece in pieces for v in piece)
    return axes, variables


def _turned_axes(loop: Loop, axes: Indices, variables: tuple[Variable, ...], groups: list[_Group]) -> Indices:
    """Turn axes along which results are read backwards, as a flip does: they are stored backwards instead."""
    loads = [] if loop.scan else value_at(loop, axes, variables).loads
    read = [index for load in loads if any(group.held(load.buffer) for group in groups) for index in load.index]
    back = {variable: variable.extent - 1 - of(variable) for index in read if (variable := turned(index))}
    return tuple(substitute(axis, back) for axis in axes)


def _divided(
    loop: Loop, axes: Indices, variables: tuple[Variable, ...], groups: list[_Group]
) -> tuple[Variable, Index] | None:
    """An axis at whose quotient by a size a loop reads a result that a thread holds, and the size."""
    for load in value_at(loop, axes, variables).loads:
        if not any(group.held(load.buffer) for group in groups):
            continue
        for atom in (atom for position in load.index for atom in position.atoms()):
            variable = atom.left.variable if isinstance(atom, Operation) and atom.kind == "//" else None
            if variable is None or variable not in variables:
                continue
            assert isinstance(atom, Operation)
            whole, rest = divide(variable.extent, atom.right)
            if rest == ZERO and ONE not in (whole, atom.right):
                return variable, atom.right
    return None


def _halves(variable: Variable, size: Index, taken: Collection[str]) -> tuple[Variable, Variable]:
    """The axes that one is split into: the outer one, and one of `size`."""
    names = (f"{variable.name}_outer", f"{variable.name}_inner")
    if "g" not in taken and variable.name not in _SPATIAL:
        names = ("g", f"{variable.name}g")
    return Variable(names[0], divide(variable.extent, size)[0]), Variable(names[1], size)


def _read_from_memory(groups: list[_Group]) -> set[Buffer]:
    """The buffers that some other group than the one that fills them reads."""
    found: set[Buffer] = set()
    for group in groups:
        found |= {load.buffer.alias or load.buffer for load in _loads(group) if not group.fills(load.buffer)}
    return found


def _kernel(group: _Group, in_memory: set[Buffer]) -> Kernel:
    stages: list[Stage] = []
    registers: dict[Buffer, Scalar] = {}
    read: set[Buffer] = set()
    done: dict[Scalar, Scalar] = {}
    computed: list[Scalar] = []

    def held(load: Load) -> Scalar | None:
        read.add(load.buffer)
        return registers.get(load.buffer)

    for member in group.members:
        loop, key = member.loop, member.loop.buffer
        loops, inner = inner_axes(loop, member.axes, (*group.axes, *member.inner))
        original = loop.body(member.axes, loops)
        computed.append(original)
        value = replace_loads(original, held, done)
        if loop.scan is not None:
            kept = loop.buffer if key in in_memory else None
            name, (axis,) = loop.buffer.name, member.inner
            stages.append(Scan(name, loop.scan.kind, (axis,), value, kept, member.axes, value.dtype))
            registers[key] = Local(value.dtype, name)
            continue
        if loop.reduction is None:
            if not member.inner or group.scanned:
                value = registers[key] = Named(value.dtype, loop.buffer.name, value)
            if key in in_memory and member.inner and group.reduces:
                for axes, inner in _pieces(member, value):
                    part = replace_loads(loop.body(axes, ()), held, done)
                    computed.append(part)
                    stages.append(Store(loop.buffer, inner, axes, decided(part)))
            elif key in in_memory:
                stages.append(Store(loop.buffer, member.inner, member.axes, value))
            continue
        dtype = "int64" if loop.reduction.kind.startswith("arg") else value.dtype
        kept = loop.buffer if key in in_memory else None
        local = loop.buffer.name
        stages.append(
            Reduce(local, loop.reduction.kind, inner, loops, value, kept, member.axes, dtype, loop.contraction)
        )
        registers[key] = Local(dtype, local)
        if loop.log_sums is not None and loop.contraction is not None:
            seen = sorted((*loop.contraction.batch, *loop.contraction.rows))
            stages.append(Store(loop.log_sums, (), tuple(member.axes[dim] for dim in seen), Local(dtype, LOG_SUM)))
    stages = [_unnamed(stage) if stage.buffer not in read else stage for stage in stages]
    nodes = {member.loop.buffer.node for member in group.members}
    nodes |= {node.name for value in computed for node in value.walk() if isinstance(node, Named)}
    last = group.members[-1].loop
    return Kernel(f"{last.buffer.name}_kernel", group.axes, tuple(stages), frozenset(nodes), last.steps)


def _pieces(member: _Member, value: Scalar) -> Iterator[tuple[Indices, tuple[Variable, ...]]]:
    """The places and the inner axes of what a row was put together from, piece by piece."""
    axis = next((axis for axis in member.inner if cuts(value, axis)), None)
    if axis is None:
        yield member.axes, member.inner
        return
    for start, end in pairwise([ZERO, *cuts(value, axis), axis.extent]):
        piece = Variable(axis.name, end - start)
        place = start + (ZERO if piece.extent == ONE else of(piece))
        inner = tuple(piece if other == axis else other for other in member.inner)
        yield (
            tuple(substitute(index, {axis: place}) for index in member.axes),
            tuple(other for other in inner if other.extent != ONE),
        )


def _unnamed(stage: Stage) -> Stage:
    """A store whose value nothing else in its kernel reads needs no variable."""
    return replace(stage, value=plain(stage.value)) if isinstance(stage, Store) else stage
