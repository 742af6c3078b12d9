"""Reductions along an axis that is not the last: columns that lie side by side in memory, and whose elements do not."""

from musadata.compiler.emission.cpp import helpers
from musadata.compiler.emission.launch import EmittedKernel, constant, count_of, finish, sides
from musadata.compiler.emission.rowwise import WARP, Team, declare_partial, new_block, point_name, work
from musadata.compiler.ir.code import BLOCK_X, THREAD_X, THREAD_Y, Choice, Constant, Name, apply, covering
from musadata.compiler.ir.index_formulas import Index
from musadata.compiler.ir.schedule import Schedule, Split
from musadata.compiler.lowering.fusion import Kernel, Reduce
from musadata.compiler.lowering.layout import flat_position, flatten


def emit_columns(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """Points that lie side by side in memory: neighbouring threads take neighbouring points, several share each one."""
    block, point, members = new_block(kernel, schedule), point_name(kernel), schedule.get(Split).amount
    member, total = Name("member"), Name("total")
    team = Team(member, members, member.equals(0), "column", members, schedule.online)
    declare_partial(block, kernel, members, WARP)
    column = Name(block.fresh("column"))
    block.declare(column.name, BLOCK_X * WARP + THREAD_X)
    block.declare(point, apply("min", column, total - 1))
    own = Choice(column < total, THREAD_Y, Constant("INT_MAX"))
    block.declare("member", own, note="past the last one it has no share")
    work(kernel, block, team, point)
    setup = (
        constant("total", count_of(block, kernel.axes)),
        sides("threads", WARP, members),
        constant("blocks", covering(total, WARP)),
    )
    functions = helpers(kernel, "columns")
    return finish(kernel, schedule, block, setup, threads=(WARP, members), counts=("total",), helpers=functions)


def are_columns(kernel: Kernel) -> bool:
    """Whether what neighbouring points reduce lies side by side in memory, and what one point reduces does not. What is
    the same for neighbouring points says nothing: their threads read it together."""
    if not kernel.axes:
        return False
    last, stages = kernel.axes[-1], [stage for stage in kernel.reductions if stage.axes]
    offsets = [[offset for offset in _offsets(stage) if last in offset.variables] for stage in stages]
    sides = [any(((last,), 1) in offset.terms for offset in found) for found in offsets]
    along = (((stage.axes[-1],), 1) in o.terms for stage, found in zip(stages, offsets, strict=True) for o in found)
    return bool(sides) and all(sides) and not any(along)


def are_rows(kernel: Kernel) -> bool:
    """Whether what each of neighbouring points reduces lies side by side in memory."""
    return any(
        (not kernel.axes or kernel.axes[-1] in offset.variables)
        and not (offset - flat_position(stage.axes)).variables & frozenset(stage.axes)
        for stage in kernel.reductions
        if stage.axes
        for offset in _offsets(stage)
    )


def _offsets(stage: Reduce) -> list[Index]:
    """The positions in memory that a stage reads."""
    return [flatten(load.index, load.buffer.shape) for load in stage.value.loads]
