"""What an emitted kernel is: its source, and how the host launches it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from musadata.teacher.compiler.emission.cpp import C_TYPES
from musadata.teacher.compiler.emission.statements import INDEX, Block
from musadata.teacher.compiler.ir.index_formulas import Index, product
from musadata.teacher.compiler.lowering.fusion import Kernel


@dataclass(frozen=True)
class EmittedKernel:
    """CUDA C++ of one kernel.

    Attributes:
        kernel: what it computes.
        schedule: how its work is dealt out: the name of the emitter.
        functions: device functions that it calls: (name, dtype).
        source: helper functions of its own and the `__global__` function.
        launch: the host's lines that launch it.
        sizes: names of the sizes that its launch refers to.
    """

    kernel: Kernel
    schedule: str
    functions: tuple[tuple[str, str], ...]
    source: str
    launch: tuple[str, ...]
    sizes: frozenset[str]


@dataclass(frozen=True)
class Geometry:
    """A launch: host variables to compute first, then grid, block and the counts that the kernel takes as arguments."""

    setup: tuple[str, ...]
    grid: str
    block: str
    counts: tuple[tuple[str, str], ...] = ()  # parameter name, host expression


def finish(
    kernel: Kernel,
    schedule: str,
    block: Block,
    geometry: Geometry,
    size_names: Sequence[str],
    *,
    template: str = "",
    helpers: str = "",
) -> EmittedKernel:
    """Put the `__global__` function around a body and write its launch."""
    body = "\n".join(block.lines)
    counts = [name for name, _ in geometry.counts]
    sizes = [name for name in size_names if re.search(rf"\b{re.escape(name)}\b", body) and name not in counts]
    parameters = [
        *(f"const {C_TYPES[b.dtype]}* __restrict__ {b.name}" for b in kernel.inputs if b not in kernel.outputs),
        *(f"{C_TYPES[b.dtype]}* __restrict__ {b.name}" for b in kernel.outputs),
        *(f"{INDEX} {name}" for name in (*counts, *sizes)),
    ]
    arguments = [
        *(pointer(b) for b in kernel.inputs if b not in kernel.outputs),
        *(pointer(b) for b in kernel.outputs),
        *(text for _, text in geometry.counts),
        *sizes,
    ]
    head = f"__global__ void {kernel.name}("
    source = f"{head}{_wrapped(parameters, head)}) {{\n{body}\n}}\n"
    call = f"{kernel.name}<<<{geometry.grid}, {geometry.block}, 0, stream>>>("
    lines = (
        *geometry.setup,
        *f"{call}{_wrapped(arguments, call, 4)});".splitlines(),
        "C10_CUDA_KERNEL_LAUNCH_CHECK();",
    )
    text = "\n".join(lines)
    used = frozenset(name for name in size_names if re.search(rf"\b{re.escape(name)}\b", text))
    return EmittedKernel(kernel, schedule, tuple(block.functions), helpers + template + source, lines, used)


def pointer(buffer) -> str:  # type: ignore[no-untyped-def]
    """A buffer's data pointer on the host."""
    kind = C_TYPES[buffer.dtype]
    if buffer.dtype in ("float16", "bfloat16"):
        constant = "const " if buffer.role in ("argument", "state") else ""
        return f"reinterpret_cast<{constant}{kind}*>({buffer.name}.data_ptr())"
    return f"{buffer.name}.data_ptr<{kind}>()"


def _wrapped(items: Sequence[str], head: str, margin: int = 0) -> str:
    """Comma-separated items, broken into lines under the opening parenthesis's level."""
    line = ", ".join(items)
    if len(head) + len(line) + margin < 112:
        return line
    lines, current = [], ""
    for item in items:
        if current and len(current) + len(item) > 96:
            lines.append(current)
            current = ""
        current = f"{current} {item}," if current else f"{item},"
    lines.append(current)
    text = "\n    ".join(lines)
    return "\n    " + text.rstrip(",")


def count_text(block: Block, factors: Sequence[Index]) -> str:
    """A product of extents as the host writes it."""
    return block.index(product(factors))
