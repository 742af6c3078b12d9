"""Axes that are split: groups of channels and phases of a transposed convolution, which both operands of a product see,
and what views joined into one axis."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from musadata.compiler.ir.index_formulas import ONE, ZERO, Index, Operation, Variable, divide, of
from musadata.compiler.lowering.fusion import Kernel, Reduce, Stage, Store
from musadata.compiler.lowering.rewriting import substitute, substitute_in


def dealt(kernel: Kernel) -> Kernel:
    """The same kernel over groups and channels in them, and over phases and places of one, where its product splits
    axes in such a way."""
    stage = kernel.reductions[0]
    assert stage.contraction is not None
    change: dict[Variable, Index] = {}
    shared: list[Variable] = []
    axes = list(kernel.axes)
    for split in stage.contraction.splits:
        axis = stage.index[split.dim].variable
        if axis is None or axis not in axes:
            continue
        count = divide(axis.extent + split.size - 1, split.size)[0]
        parts = [Variable(name, extent) for name, extent in zip(split.names, (count, split.size), strict=True)]
        change[axis] = of(parts[0]) * split.size + of(parts[1])
        shared.append(parts[split.is_phase])
        axes[axes.index(axis) : axes.index(axis) + 1] = [part for part in parts if part.extent != ONE]
    if not change:
        return kernel
    change = {axis: substitute(index, _absent(axes, index)) for axis, index in change.items()}
    stages = tuple(_moved(one, change, tuple(v for v in shared if v in axes)) for one in kernel.stages)
    return replace(kernel, axes=tuple(axes), stages=stages)


def _absent(axes: Sequence[Variable], index: Index) -> dict[Variable, Index]:
    """Axes of one point have no variable."""
    return {variable: ZERO for variable in index.variables if variable not in axes}


def _moved(stage: Stage, change: dict[Variable, Index], shared: tuple[Variable, ...]) -> Stage:
    """A stage at a point that is given by other axes."""
    index = tuple(substitute(one, change) for one in stage.index)
    if not isinstance(stage, Reduce):
        return replace(stage, index=index, value=substitute_in(stage.value, change))
    inner = tuple(Variable(axis.name, substitute(axis.extent, change)) for axis in stage.axes)
    change = change | dict(zip(stage.axes, map(of, inner), strict=True))
    loops = tuple(substitute(one, change) for one in stage.loops)
    assert stage.contraction is not None
    extents = tuple(ONE if one.variable is None else one.variable.extent for one in stage.index)
    contraction = replace(stage.contraction, splits=(), shared=shared, extents=extents)
    value = substitute_in(stage.value, change)
    return replace(stage, index=index, axes=inner, loops=loops, value=value, contraction=contraction)


def parted(kernel: Kernel) -> Kernel:
    """A pointwise kernel over the parts of those axes that it reads at quotients and remainders of: of rows that hold
    several rows of an image, say. Then no thread takes the axis apart again."""
    while (changed := next(_parted(kernel), None)) is not None:
        kernel = changed
    return kernel


def _parted(kernel: Kernel) -> Iterator[Kernel]:
    """The kernel with one axis split so that it has fewer quotients and remainders."""
    (stage, *others), taken = kernel.stages, {axis.name for axis in kernel.axes}
    if others or kernel.steps or not isinstance(stage, Store) or stage.axes:
        return
    before = dict.fromkeys(_quotients(stage))  # in a fixed order
    for axis in kernel.axes:
        sizes = dict.fromkeys(one.right for one in before if one.left == of(axis) and not one.right.variables)
        for size in sorted(sizes, key=lambda size: (size.constant or 0, len(size.terms))):
            whole, rest = divide(axis.extent, size)
            names = [f"{axis.name}_{part}" for part in ("outer", "inner")]
            if rest != ZERO or ONE in (whole, size) or taken & set(names):
                continue
            outer, inner = Variable(names[0], whole), Variable(names[1], size)
            change = {axis: of(outer) * size + of(inner)}
            index = tuple(substitute(one, change) for one in stage.index)
            new = replace(stage, index=index, value=substitute_in(stage.value, change))
            if len(set(_quotients(new))) < len(before):
                place = kernel.axes.index(axis)
                axes = (*kernel.axes[:place], outer, inner, *kernel.axes[place + 1 :])
                yield replace(kernel, axes=axes, stages=(new,))


def _quotients(stage: Store) -> Iterator[Operation]:
    for node in stage.value.walk():
        for formula in node.formulas:
            yield from (a for a in formula.atoms() if isinstance(a, Operation) and a.kind in ("//", "%"))
