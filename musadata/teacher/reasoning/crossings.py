"""Why a kernel's result goes through memory to the next one, instead of being computed where it is read."""

from collections.abc import Sequence

from musadata.teacher.compiler.ir.scalar import Buffer
from musadata.teacher.compiler.lowering.fusion import Kernel, Reduce
from musadata.teacher.reasoning.sentences import say


def crossing(kernel: Kernel, kernels: Sequence[Kernel]) -> str:
    """Which kernels read what a kernel stores, and why that is not computed in them; empty for results."""
    later = kernels[kernels.index(kernel) + 1 :]
    reasons: dict[str, str] = {}  # one for each kernel, though it reads several of the results
    for buffer in kernel.outputs:
        readers = [other for other in later if buffer in other.inputs]
        if readers:
            names = ", ".join(f"`{other.name}`" for other in readers[:3]) + (" and others" if len(readers) > 3 else "")
            reasons.setdefault(names, _reason(buffer, kernel, readers))
    return "".join(say("crossing", names=names, reason=reason) for names, reason in reasons.items())


def _reason(buffer: Buffer, kernel: Kernel, readers: Sequence[Kernel]) -> str:
    if any(stage.contraction is not None and _loads(stage, buffer) for other in readers for stage in other.reductions):
        return say("crossing_product", seed=buffer.name)
    if any(_loads(stage, buffer) for other in readers for stage in other.reductions if stage.axes):
        return say("crossing_reduction" if kernel.reductions else "crossing_costly", seed=buffer.name)
    if len(readers) > 1:
        return say("crossing_shared")
    return say("crossing_elsewhere" if kernel.reductions else "crossing_costly")


def _loads(stage: Reduce, buffer: Buffer) -> bool:
    return any(load.buffer is buffer for load in stage.value.loads)
