"""Axes that are split: groups of channels and phases of a transposed convolution, which both operands of a product
see."""

from collections.abc import Sequence
from dataclasses import replace

from musadata.compiler.ir.index_formulas import ONE, ZERO, Index, Variable, divide, of
from musadata.compiler.lowering.fusion import Kernel, Reduce, Stage
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
