"""Reductions along an axis that is not the last: columns that lie side by side in memory, and whose elements do not."""

from collections.abc import Sequence

from musadata.teacher.compiler.emission.cpp import C_TYPES, helpers
from musadata.teacher.compiler.emission.launch import EmittedKernel, count_text, finish
from musadata.teacher.compiler.emission.rowwise import WARP, Team, new_block, point_name, work
from musadata.teacher.compiler.emission.statements import INDEX
from musadata.teacher.compiler.ir.index_formulas import Variable
from musadata.teacher.compiler.lowering.fusion import Kernel, Reduce
from musadata.teacher.compiler.lowering.layout import flatten


def emit_columns(kernel: Kernel, size_names: Sequence[str], members: int, *, online: bool) -> EmittedKernel:
    """Points that lie side by side in memory: neighbouring threads take neighbouring points, several share each one."""
    block, point = new_block(kernel, size_names), point_name(kernel)
    team = Team("member", str(members), "member == 0", "column", members, online)
    for dtype in dict.fromkeys(r.dtype for r in kernel.reductions):
        name = "partial" if dtype == kernel.reductions[0].dtype else f"partial_{dtype}"
        block.write(f"__shared__ {C_TYPES[dtype]} {name}[{members}][{WARP}];")
    column = block.fresh("column")
    block.write(f"const {INDEX} {column} = blockIdx.x * {WARP} + threadIdx.x;")
    block.write(f"const {INDEX} {point} = min({column}, total - 1);")
    block.write(
        f"const {INDEX} member = {column} < total ? threadIdx.y : INT_MAX;  // past the last one it has no share"
    )
    work(kernel, block, team, point)
    setup = (
        f"const int total = {count_text(block, kernel.axes)};",
        f"const dim3 threads({WARP}, {members});",
        f"const int blocks = (total + {WARP - 1}) / {WARP};",
    )
    functions = helpers(kernel, "columns")
    schedule = "neighbouring columns by neighbouring threads, several threads per column"
    return finish(kernel, schedule, block, setup, size_names, counts=("total",), helpers=functions)


def are_columns(kernel: Kernel) -> bool:
    """Whether what neighbouring points reduce lies side by side in memory, and what one point reduces does not."""
    if not kernel.axes:
        return False
    sides = [_walks(stage, kernel.axes[-1:]) for stage in kernel.reductions if stage.axes]
    return bool(sides) and all(sides) and not any(_walks(stage, stage.axes[-1:]) for stage in kernel.reductions)


def _walks(stage: Reduce, axes: tuple[Variable, ...]) -> bool:
    """Whether neighbours along an axis are neighbours in memory for some tensor that the stage reads."""
    offsets = [flatten(list(load.index), list(load.buffer.shape)) for load in stage.value.loads]
    return any(((axis,), 1) in offset.terms for offset in offsets for axis in axes)
