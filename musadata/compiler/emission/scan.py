"""Kernels that scan rows: every element becomes the sum (product, …) of all up to it."""

from musadata.compiler.emission.cpp import C_TYPES, REDUCTIONS, identity
from musadata.compiler.emission.launch import EmittedKernel, count_text, finish, linear_setup
from musadata.compiler.emission.pointwise import write_store
from musadata.compiler.emission.rowwise import WARP, point_name, used_axes
from musadata.compiler.emission.statements import INDEX, Block, decode
from musadata.compiler.ir.scalar import Local
from musadata.compiler.ir.schedule import Bind, Schedule
from musadata.compiler.lowering.fusion import Kernel, Scan, Store

_COMBINED = {
    "sum": "{a} + {b}",
    "prod": "{a} * {b}",
    "max": "maximum({a}, {b})",
    "min": "minimum({a}, {b})",
    "logsumexp": "add_logs({a}, {b})",
}
_FUNCTIONS = {"max": "maximum", "min": "minimum", "logsumexp": "add_logs"}


def emit_serial_scan(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """One thread per row, which keeps the result so far in a register."""
    block, names = _new_block(kernel, schedule)
    row, (axis,), threads = point_name(kernel), kernel.scans[0].axes, schedule.get(Bind).amount
    block.write_thread_loop(row, False, lambda: None)
    _decode_row(block, kernel)
    for scan in kernel.scans:
        block.write(f"{C_TYPES[scan.dtype]} {names[scan.local]} = {_identity(scan)};")
    with block.scope(f"for ({INDEX} {axis.name} = 0; {axis.name} < {block.index(axis.extent)}; ++{axis.name})"):
        for stage in kernel.stages:
            if isinstance(stage, Scan):
                _update(block, stage, names[stage.local], block.value(stage.value))
            _store(block, stage)
    setup = linear_setup(block, kernel.axes, threads)
    return finish(kernel, schedule, block, setup, threads=(threads,), counts=("total",))


def emit_block_scan(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """One block per row: it scans a piece of the row by shuffles and carries the result over to the next piece."""
    block, names = _new_block(kernel, schedule)
    row, (axis,), threads = point_name(kernel), kernel.scans[0].axes, schedule.get(Bind).amount
    carries = {stage.local: block.fresh("carry") for stage in kernel.scans}
    for dtype in dict.fromkeys(stage.dtype for stage in kernel.scans):
        block.write(f"__shared__ {C_TYPES[dtype]} {_memory(kernel, dtype)}[{threads // WARP}];")
    if kernel.axes:
        block.write(f"const {INDEX} {row} = blockIdx.x;")
        _decode_row(block, kernel)
    for scan in kernel.scans:
        block.write(f"{C_TYPES[scan.dtype]} {carries[scan.local]} = {_identity(scan)};")
    extent = block.index(axis.extent)
    with block.scope(f"for ({INDEX} start = 0; start < {extent}; start += blockDim.x)"):
        block.write(f"const {INDEX} {axis.name} = start + threadIdx.x;")
        for stage in kernel.stages:
            if isinstance(stage, Scan):
                _scan_piece(block, kernel, stage, names[stage.local], carries[stage.local], extent)
        with block.scope(f"if ({axis.name} < {extent})"):
            for stage in kernel.stages:
                _store(block, stage)
    setup = (f"const int blocks = {count_text(block, kernel.axes)};", f"const int threads = {threads};")
    return finish(kernel, schedule, block, setup, threads=(threads,), helpers=_helpers(kernel))


def _new_block(kernel: Kernel, schedule: Schedule) -> tuple[Block, dict[str, str]]:
    """The body, and the names of the registers that hold results so far."""
    axes = [axis.name for axis in kernel.scans[0].axes]
    block = Block.of(kernel, schedule, [*axes, "total", "start", "output", "point"])
    names = {stage.local: block.fresh("so_far") for stage in kernel.scans}
    block.printer.rename = names
    return block, names


def _decode_row(block: Block, kernel: Kernel) -> None:
    if len(kernel.axes) > 1:
        decode(block, point_name(kernel), kernel.axes, used_axes(kernel))


def _scan_piece(block: Block, kernel: Kernel, stage: Scan, name: str, carry: str, extent: str) -> None:
    kind, whole = C_TYPES[stage.dtype], block.fresh("piece")
    block.write(f"{kind} {name} = {_identity(stage)};")
    with block.scope(f"if ({stage.axes[0].name} < {extent})"):
        block.write(f"{name} = {block.value(stage.value)};")
    block.write(f"{kind} {whole};")
    block.write(f"{name} = scan_{stage.kind}({name}, {_memory(kernel, stage.dtype)}, {whole});")
    block.write(f"{name} = {_combined(block, stage, carry, name)};")
    _update(block, stage, carry, whole)


def _store(block: Block, stage: object) -> None:
    if isinstance(stage, Store):
        write_store(block, stage)
    elif isinstance(stage, Scan) and stage.buffer is not None:
        write_store(block, Store(stage.buffer, (), stage.index, Local(stage.dtype, stage.local)))


def _memory(kernel: Kernel, dtype: str) -> str:
    return "partial" if dtype == kernel.scans[0].dtype else f"partial_{dtype}"


def _identity(stage: Scan) -> str:
    return identity("max" if stage.kind == "logsumexp" else stage.kind, stage.dtype)


def _combined(block: Block, stage: Scan, one: str, other: str) -> str:
    if stage.kind in _FUNCTIONS:
        block.functions[_FUNCTIONS[stage.kind], stage.dtype] = None
    return _COMBINED[stage.kind].format(a=one, b=other)


def _update(block: Block, stage: Scan, one: str, other: str) -> None:
    sign = {"sum": "+", "prod": "*"}.get(stage.kind)
    block.write(f"{one} {sign}= {other};" if sign else f"{one} = {_combined(block, stage, one, other)};")


def _helpers(kernel: Kernel) -> str:
    """The device functions that scan the values of a block, for each kind and type."""
    found = {(stage.kind, stage.dtype): stage for stage in kernel.scans}
    return "".join(
        REDUCTIONS["scan"].substitute(
            T=C_TYPES[dtype],
            scan=f"scan_{kind}",
            identity=_identity(stage),
            lanes=_COMBINED[kind].format(a="other", b="value"),
            warps=_COMBINED[kind].format(a="before", b="partial[w]"),
            whole=_COMBINED[kind].format(a="piece", b="partial[w]"),
            result=_COMBINED[kind].format(a="before", b="value"),
        )
        + "\n"
        for (kind, dtype), stage in found.items()
    )
