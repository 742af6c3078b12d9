"""Points of loops: the variables that name them, and which points of two loops are the same."""

from collections.abc import Mapping

from musadata.compiler.ir.index_formulas import ONE, ZERO, Index, Opaque, Operation, Variable, of, product
from musadata.compiler.ir.program import Indices, Loop
from musadata.compiler.ir.scalar import Scalar
from musadata.compiler.lowering.layout import flat_position, flatten
from musadata.compiler.lowering.rewriting import substitute


def value_of(loop: Loop) -> tuple[Scalar, tuple[Variable, ...]]:
    """What a loop computes in one step, and the variables of its outer and inner loops."""
    axes, variables = axes_of(loop)
    loops, inner = inner_axes(loop, axes, variables)
    return loop.body(axes, loops), (*variables, *inner)


def axes_of(loop: Loop) -> tuple[Indices, tuple[Variable, ...]]:
    """The index that a loop stores at, and its variables."""
    axes, variables = variables_of(loop.names, loop.shape)
    return (*loop.prefix, *axes), variables


def variables_of(names: tuple[str, ...], shape: Indices) -> tuple[Indices, tuple[Variable, ...]]:
    """Loop variables for a shape; a dimension of size 1 has none and its index is 0."""
    axes = [ZERO if size == ONE else of(Variable(name, size)) for name, size in zip(names, shape, strict=True)]
    return tuple(axes), tuple(v for axis in axes if (v := axis.variable) is not None)


def inner_axes(loop: Loop, axes: Indices, variables: tuple[Variable, ...]) -> tuple[Indices, tuple[Variable, ...]]:
    """Variables for the loops of a reduction, named apart from the outer ones."""
    if loop.reduction is None:
        return (), ()
    taken = {v.name for v in variables}
    names = tuple(f"{name}2" if name in taken else name for name in loop.reduction.names)
    return variables_of(names, loop.reduction.extents(axes))


def value_at(loop: Loop, axes: Indices, variables: tuple[Variable, ...]) -> Scalar:
    """What a loop computes at a point."""
    return loop.body(axes, inner_axes(loop, axes, variables)[0])


def turned(index: Index) -> Variable | None:
    """The variable that an index goes along backwards."""
    variable = next(iter(index.variables), None)
    return variable if variable is not None and index + of(variable) == variable.extent - 1 else None


def unify(
    known: Indices, wanted: Indices, group_axes: tuple[Variable, ...], variables: tuple[Variable, ...]
) -> dict[Variable, Index] | None:
    """How the group's axes must be expressed so that `known` becomes `wanted`; None if that is not possible."""
    if all(axis == ZERO or axis.variable is not None for axis in known):
        change = {}
        for one, other in zip(known, wanted, strict=True):
            if one.variable is not None:
                change[one.variable] = other
            elif other != ZERO:
                return None
        return change if all(v in change for v in group_axes) else None
    used = [v for v in variables if any(v in index.variables for index in wanted)]
    if len(used) != len(group_axes) or any(a.extent != b.extent for a, b in zip(group_axes, used, strict=True)):
        return None
    change = {a: of(b) for a, b in zip(group_axes, used, strict=True)}
    return change if tuple(substitute(axis, change) for axis in known) == wanted else None


def point(
    change: Mapping[Variable, Index], group_axes: tuple[Variable, ...], variables: tuple[Variable, ...]
) -> tuple[Variable, ...] | None:
    """The joining loop's variables that name a point of the group, if they do so one to one."""
    used = {v for index in change.values() for v in index.variables}
    if any(isinstance(atom, (Opaque, Operation)) for index in change.values() for atom in index.atoms()):
        return None
    ordered = [v for index in change.values() for v in _by_stride(index)]
    if len(ordered) != len(used) or any(v not in variables for v in ordered):
        return None
    flat = flatten([change[v] for v in group_axes], [v.extent for v in group_axes])
    mine = [w for v in group_axes for w in _by_stride(change[v])]
    if flat != flat_position(mine):
        return None
    if product(v.extent for v in mine) != product(v.extent for v in group_axes):
        return None  # a concatenation reads a part of its rows there and has more
    return tuple(v for v in variables if v in used)


def _by_stride(index: Index) -> list[Variable]:
    """The variables of a formula, the one that moves farthest first."""
    return sorted(index.variables, key=lambda v: _stride_key(index, v))


def _stride_key(index: Index, variable: Variable) -> tuple[int, str]:
    for monomial, coefficient in index.terms:
        if variable in monomial:
            return -(len(monomial) * 1_000_000 + coefficient), variable.name
    return 0, variable.name
