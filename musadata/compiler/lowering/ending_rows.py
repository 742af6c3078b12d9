"""Sums over what is made of rows' results, such as the mean of a loss: the kernel of the rows makes the terms.

A cross entropy adds up, for each row, an element of it, its maximum and the logarithm of its sum. One block that adds
rows up reads all of these, at places that it must read first, and waits for memory in each of its rounds; the kernel of
the rows has them in registers, and leaves one number for each row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from musadata.compiler.ir.index_formulas import ONE
from musadata.compiler.ir.program import Loop
from musadata.compiler.ir.scalar import Buffer, Load
from musadata.compiler.lowering.loop_points import variables_of


def end_rows(loops: Sequence[Loop]) -> list[Loop]:
    """The loops, with two in place of each sum to one number whose terms need several elements, results of reductions
    among them: one that stores the terms, and one that adds them up."""
    makers = {loop.buffer: loop for loop in loops}
    found: list[Loop] = []
    for loop in loops:
        rows = _rows(loop, makers)
        found += (loop,) if rows is None else _split(loop, rows.names)
    return found


def _rows(loop: Loop, makers: Mapping[Buffer, Loop]) -> Loop | None:
    """The reduction of whose results, one for each step, a sum makes its terms; None if it makes nothing of any."""
    if loop.reduction is None or loop.reduction.kind != "sum" or any(size != ONE for size in loop.shape):
        return None
    if loop.contraction or loop.steps or loop.spread:
        return None
    axes, _ = variables_of(loop.names, loop.shape)
    inner, variables = variables_of(loop.reduction.names, loop.reduction.extents(axes))
    read = {(load.buffer, load.index) for load in loop.body(axes, inner).loads}
    whole = [buffer for buffer, index in read if tuple(i.variable for i in index if i.terms) == variables]
    reduced = (maker for buffer in whole if (maker := makers.get(buffer)) is not None)
    rows = (maker for maker in reduced if maker.reduction and not maker.contraction)
    return next(rows, None) if len(read) > 1 else None


def _split(loop: Loop, names: tuple[str, ...]) -> tuple[Loop, Loop]:
    """The terms, in memory, and their sum. `names` are those of the axes of the rows."""
    assert loop.reduction is not None
    axes, _ = variables_of(loop.names, loop.shape)
    shape = loop.reduction.extents(axes)
    dtype = loop.body(axes, variables_of(loop.reduction.names, shape)[0]).dtype
    terms = Buffer(f"{loop.buffer.name}_terms", shape, dtype, "temporary", node=loop.buffer.node)
    made = Loop(
        terms, names if len(names) == len(shape) else loop.reduction.names, lambda places, _: loop.body(axes, places)
    )
    return made, replace(loop, body=lambda _, inner: Load(dtype, terms, inner))
