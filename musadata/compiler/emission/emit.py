"""Carrying out schedules: the kernel that each of them makes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from musadata.compiler.emission.attention import emit_attention
from musadata.compiler.emission.columns import emit_columns
from musadata.compiler.emission.few_rows import emit_few_rows
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.emission.pointwise import emit_elements, emit_rows, emit_turned, spread
from musadata.compiler.emission.register_tiled import emit_register_tiled
from musadata.compiler.emission.rowwise import emit_block, emit_thread, emit_warp
from musadata.compiler.emission.scan import emit_block_scan, emit_serial_scan
from musadata.compiler.emission.schedule_plan import Plan, choose, extent_hint, plainly
from musadata.compiler.emission.shared_kernels import Structure, structure
from musadata.compiler.emission.tensor_core_attention import emit_tensor_core_attention
from musadata.compiler.emission.tensor_core_tiled import emit_tensor_core_tiled
from musadata.compiler.emission.tiled import emit_tiled
from musadata.compiler.emission.vectorised import emit_vectorised
from musadata.compiler.ir.schedule import (
    Bind,
    Carry,
    Combine,
    Schedule,
    Split,
    Stage,
    TensorCore,
    Tile,
    Unroll,
    Vectorise,
)
from musadata.compiler.lowering.fusion import Kernel
from musadata.compiler.lowering.shared_axes import dealt


def emit(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """The kernel by a schedule: the same ones give the same code."""
    kernel = spread(kernel)
    match schedule.steps:
        case [Bind("elements"), *_]:
            return emit_elements(kernel, schedule)
        case [Vectorise("elements" | "rows"), *_]:
            return emit_vectorised(kernel, schedule)
        case [Split("elements"), *_]:
            return emit_turned(kernel, schedule)
        case [Bind("rows"), Bind("columns")]:
            return emit_rows(kernel, schedule)
        case [Bind("outputs", "thread"), *_]:
            return emit_thread(kernel, schedule)
        case [Bind("outputs", "warp"), *_]:
            return emit_warp(kernel, schedule)
        case [Bind("outputs", "block"), *_]:
            return emit_block(kernel, schedule)
        case [Bind("columns"), *_, Combine()]:
            return emit_columns(kernel, schedule)
        case [Bind("rows"), Carry(of="elements")]:
            return emit_serial_scan(kernel, schedule)
        case [Bind("rows"), Carry(of="pieces")]:
            return emit_block_scan(kernel, schedule)
        case [Tile(), Bind("lines"), *_]:
            return emit_few_rows(dealt(kernel), schedule)
        case [Tile(), Stage(), Unroll() | TensorCore("factors")]:
            return emit_register_tiled(dealt(kernel), schedule)
        case [Tile(), Stage(), TensorCore(), *_]:
            return emit_tensor_core_tiled(dealt(kernel), schedule)
        case [Tile(), *_]:
            return emit_tiled(dealt(kernel), schedule)
        case [Split("rows"), *_, TensorCore()]:
            return emit_tensor_core_attention(kernel, schedule)
        case [Split("rows"), *_]:
            return emit_attention(kernel, schedule)
    raise AssertionError(f"no kernel has the schedule {schedule.log()}")


def emit_alike(kernels: Sequence[Kernel], plan: Plan, hints: Mapping[str, int]) -> tuple[EmittedKernel, ...]:
    """Emit kernels so that those of one structure get the same schedule, that of the largest, and can share code."""
    plan = replace(plan, alike=True)
    groups: dict[Structure, list[Kernel]] = {}
    for kernel in kernels:
        plain = emit(kernel, choose(kernel, plan, hints) if kernel.attends else plainly(spread(kernel)))
        groups.setdefault(structure(plain), []).append(kernel)
    largest = {one: max(group, key=lambda k: _points_of(k, hints)) for group in groups.values() for one in group}
    return tuple(emit(kernel, choose(kernel, plan, hints, largest[kernel])) for kernel in kernels)


def _points_of(kernel: Kernel, hints: Mapping[str, int]) -> int:
    """All points of a kernel, inner ones included."""
    return extent_hint(kernel.axes, hints) * max(extent_hint(stage.axes, hints) for stage in kernel.stages)
