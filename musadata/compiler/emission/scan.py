"""Kernels that scan rows: every element becomes the sum (product, …) of all up to it."""

from musadata.compiler.emission.block import Block, decode
from musadata.compiler.emission.cpp import C_TYPES, REDUCTIONS, identity
from musadata.compiler.emission.launch import EmittedKernel, constant, count_of, finish, linear_setup
from musadata.compiler.emission.pointwise import write_store
from musadata.compiler.emission.rowwise import WARP, point_name, used_axes
from musadata.compiler.ir.code import BLOCK_DIM_X, BLOCK_X, THREAD_X, Binary, Expression, Name, Some, apply, code
from musadata.compiler.ir.scalar import Local
from musadata.compiler.ir.schedule import Bind, Schedule
from musadata.compiler.lowering.fusion import Kernel, Scan, Store

_SIGNS = {"sum": "+", "prod": "*"}
_FUNCTIONS = {"max": "maximum", "min": "minimum", "logsumexp": "add_logs"}


def emit_serial_scan(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """One thread per row, which keeps the result so far in a register."""
    block, names = _new_block(kernel, schedule)
    row, (axis,), threads = point_name(kernel), kernel.scans[0].axes, schedule.get(Bind).amount
    block.point_loop(row, False, lambda: None)
    _decode_row(block, kernel)
    for scan in kernel.scans:
        block.variable(C_TYPES[scan.dtype], names[scan.local], _identity(scan))
    with block.loop(axis.name, 0, block.index(axis.extent)):
        for stage in kernel.stages:
            if isinstance(stage, Scan):
                _update(block, stage, Name(names[stage.local]), block.value(stage.value))
            _store(block, stage)
    setup = linear_setup(block, kernel.axes, threads)
    return finish(kernel, schedule, block, setup, threads=(threads,), counts=("total",))


def emit_block_scan(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """One block per row: it scans a piece of the row by shuffles and carries the result over to the next piece."""
    block, names = _new_block(kernel, schedule)
    row, (axis,), threads = point_name(kernel), kernel.scans[0].axes, schedule.get(Bind).amount
    carries = {stage.local: block.fresh("carry") for stage in kernel.scans}
    for dtype in dict.fromkeys(stage.dtype for stage in kernel.scans):
        block.shared(C_TYPES[dtype], _memory(kernel, dtype), threads // WARP)
    if kernel.axes:
        block.declare(row, BLOCK_X)
        _decode_row(block, kernel)
    for scan in kernel.scans:
        block.variable(C_TYPES[scan.dtype], carries[scan.local], _identity(scan))
    extent = block.index(axis.extent)
    with block.loop("start", 0, extent, BLOCK_DIM_X):
        block.declare(axis.name, Name("start") + THREAD_X)
        for stage in kernel.stages:
            if isinstance(stage, Scan):
                _scan_piece(block, kernel, stage, Name(names[stage.local]), Name(carries[stage.local]), extent)
        with block.when(Name(axis.name) < extent):
            for stage in kernel.stages:
                _store(block, stage)
    setup = (constant("blocks", count_of(block, kernel.axes)), constant("threads", threads))
    return finish(kernel, schedule, block, setup, threads=(threads,), helpers=_helpers(kernel))


def _new_block(kernel: Kernel, schedule: Schedule) -> tuple[Block, dict[str, str]]:
    """The body, and the names of the registers that hold results so far."""
    axes = [axis.name for axis in kernel.scans[0].axes]
    block = Block.of(kernel, schedule, [*axes, "total", "start", "output", "point"])
    names = {stage.local: block.fresh("so_far") for stage in kernel.scans}
    block.printer.rename = {local: Name(name) for local, name in names.items()}
    return block, names


def _decode_row(block: Block, kernel: Kernel) -> None:
    if len(kernel.axes) > 1:
        decode(block, point_name(kernel), kernel.axes, used_axes(kernel))


def _scan_piece(block: Block, kernel: Kernel, stage: Scan, name: Name, carry: Name, extent: Expression) -> None:
    kind, whole = C_TYPES[stage.dtype], Name(block.fresh("piece"))
    block.variable(kind, name.name, _identity(stage))
    with block.when(Name(stage.axes[0].name) < extent):
        block.assign(name, block.value(stage.value))
    block.variable(kind, whole.name)
    block.assign(name, apply(f"scan_{stage.kind}", name, _memory(kernel, stage.dtype), whole))
    block.assign(name, _combined(block, stage, carry, name))
    _update(block, stage, carry, whole)


def _store(block: Block, stage: object) -> None:
    if isinstance(stage, Store):
        write_store(block, stage)
    elif isinstance(stage, Scan) and stage.buffer is not None:
        write_store(block, Store(stage.buffer, (), stage.index, Local(stage.dtype, stage.local)))


def _memory(kernel: Kernel, dtype: str) -> str:
    return "partial" if dtype == kernel.scans[0].dtype else f"partial_{dtype}"


def _identity(stage: Scan) -> Expression:
    return identity("max" if stage.kind == "logsumexp" else stage.kind, stage.dtype)


def _combined(block: Block, stage: Scan, one: Expression, other: Expression) -> Expression:
    if stage.kind in _FUNCTIONS:
        block.functions[_FUNCTIONS[stage.kind], stage.dtype] = None
    return _both(stage.kind, one, other)


def _both(kind: str, one: Some, other: Some) -> Expression:
    if kind in _SIGNS:
        return Binary(code(one), _SIGNS[kind], code(other))
    return apply(_FUNCTIONS[kind], one, other)


def _update(block: Block, stage: Scan, one: Expression, other: Expression) -> None:
    if sign := _SIGNS.get(stage.kind):
        block.assign(one, other, f"{sign}=")
    else:
        block.assign(one, _combined(block, stage, one, other))


def _helpers(kernel: Kernel) -> list[str]:
    """The device functions that scan the values of a block, for each kind and type."""
    found = {(stage.kind, stage.dtype): stage for stage in kernel.scans}
    return [
        REDUCTIONS["scan"].substitute(
            T=C_TYPES[dtype],
            scan=f"scan_{kind}",
            identity=_identity(stage),
            lanes=_both(kind, "other", "value"),
            warps=_both(kind, "before", Name("partial")["w"]),
            whole=_both(kind, "piece", Name("partial")["w"]),
            result=_both(kind, "before", "value"),
        )
        for (kind, dtype), stage in found.items()
    ]
