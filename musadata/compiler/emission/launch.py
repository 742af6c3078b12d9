"""What an emitted kernel is: its source, and how the host launches it."""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from musadata.compiler.emission.cpp import C_TYPES, Printer
from musadata.compiler.emission.statements import INDEX, Block
from musadata.compiler.ir.index_formulas import Index, Variable, product
from musadata.compiler.ir.scalar import Buffer
from musadata.compiler.ir.schedule import Schedule
from musadata.compiler.lowering.fusion import Kernel

_SCALAR_TYPES = ("Bool", "UInt8", "Int8", "Int16", "Int32", "Int64", "Float16", "BFloat16", "Float32", "Float64")
MOST_THREADS = 2048  # that a multiprocessor runs at once
TORCH_TYPES = {name.lower(): f"torch::k{name}" for name in _SCALAR_TYPES}


class NumberName(str):
    """The name of a floating-point number that the host passes; other names are those of sizes."""


def declared(name: str, kernel: Kernel) -> str:
    """A size or number as a parameter of a kernel."""
    if not isinstance(name, NumberName):
        return f"{INDEX} {name}"
    is_double = any(buffer.dtype == "float64" for buffer in (*kernel.inputs, *kernel.outputs))
    return f"{'double' if is_double else 'float'} {name}"


@dataclass(frozen=True)
class EmittedKernel:
    """CUDA C++ of one kernel.

    Attributes:
        kernel: what it computes.
        schedule: how its work is dealt to threads.
        functions: device functions that it calls: (name, dtype).
        source: helper functions of its own and the `__global__` function.
        launch: the host's lines that launch it.
        sizes: names of the sizes and numbers that its launch refers to.
        threads: how many a block has, along x and further axes, in this launch: layers that share a kernel may differ.
    """

    kernel: Kernel
    schedule: Schedule
    functions: tuple[tuple[str, str], ...]
    source: str
    launch: tuple[str, ...]
    sizes: frozenset[str]
    threads: tuple[int, ...]


def finish(
    kernel: Kernel,
    schedule: Schedule,
    block: Block,
    setup: Sequence[str],
    *,
    threads: tuple[int, ...],
    counts: Sequence[str] = (),
    helpers: str = "",
    bounds: int = 0,
    aligned: str = "",
    shared: str = "",
) -> EmittedKernel:
    """Put the `__global__` function around a body and write its launch.

    `setup` are host statements that define `blocks`, `threads` and the `counts`, which the kernel takes as arguments.
    With `bounds`, the compiler is told that no block has more threads. With `aligned`, a condition on the host, the
    kernel is a template of whether it holds. With `shared`, its bytes, shared memory is allocated at the launch.
    """
    body = "\n".join(block.lines)
    sizes = [name for name in mentioned(kernel.size_names, body) if name not in counts]
    free = [name for name in sizes if kernel.inputs and schedule.alike and not isinstance(name, NumberName)]
    sizes = [name for name in sizes if name not in free]
    inputs = [buffer for buffer in kernel.inputs if buffer not in kernel.outputs]
    parameters = [
        *(f"const {C_TYPES[buffer.dtype]}* __restrict__ {buffer.name}" for buffer in inputs),
        *(f"{C_TYPES[buffer.dtype]}* __restrict__ {buffer.name}" for buffer in kernel.outputs),
        *(declared(name, kernel) for name in (*counts, *sizes)),
    ]
    arguments = [*map(_pointer, (*inputs, *kernel.outputs)), *counts, *sizes]
    limit = f"__launch_bounds__({bounds}) " if bounds else ""
    template = "template <bool aligned>\n" if aligned else ""
    head = f"__global__ void {limit}{kernel.name}("
    source = f"{template}{head}{_wrapped(parameters, head)}) {{\n{body}\n}}\n"
    check = "C10_CUDA_KERNEL_LAUNCH_CHECK();"
    setup = [*setup, *([f"const int shared_bytes = {shared};"] if shared else [])]
    if aligned:
        yes, no = (_call(f"{kernel.name}<{value}>", arguments, shared) for value in ("true", "false"))
        lines = (
            *setup,
            *textwrap.wrap(f"if ({aligned}) {{", 104, subsequent_indent=" " * 8, break_long_words=False),
            *(f"    {line}" for line in yes),
            "} else {",
            *(f"    {line}" for line in no),
            "}",
            check,
        )
    else:
        lines = (*setup, *_call(kernel.name, arguments, shared), check)
    used = frozenset((*free, *mentioned(kernel.size_names, "\n".join(lines))))
    return EmittedKernel(kernel, schedule, tuple(block.functions), helpers + source, lines, used, threads)


def _call(name: str, arguments: Sequence[str], shared: str) -> list[str]:
    """The lines of a launch. More shared memory than 48 KB must be asked for."""
    attribute = f"{name}, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes"
    asked = [f"C10_CUDA_CHECK(cudaFuncSetAttribute({attribute}));"] if shared else []
    call = f"{name}<<<blocks, threads, {'shared_bytes' if shared else '0'}, stream>>>("
    return [*asked, *f"{call}{_wrapped(arguments, call, 4)});".splitlines()]


def mentioned(names: Sequence[str], text: str) -> list[str]:
    return [name for name in names if re.search(rf"\b{re.escape(name)}\b", text)]


def _pointer(buffer: Buffer) -> str:
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


def results_text(names: Sequence[str]) -> tuple[str, str]:
    """The type and the expression of what a host function returns."""
    listed = ", ".join(names)
    if len(names) == 1:
        return "Tensor", listed
    return f"std::tuple<{', '.join(['Tensor'] * len(names))}>", f"std::make_tuple({listed})"


def filled(items: Sequence[str], width: int = 104) -> str:
    """Comma-separated items on lines of about so many characters at most."""
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) > width:
            lines.append("")
        lines[-1] += f"{', ' * bool(lines[-1])}{item}"
    return ",\n    ".join(lines)


def count_text(block: Block, axes: Sequence[Variable]) -> str:
    """The number of points of some axes, as the host writes it."""
    return block.index(product(axis.extent for axis in axes))


def linear_setup(
    block: Block, axes: Sequence[Variable], threads: int, blocks: str = "", *, stride: bool = False
) -> tuple[str, ...]:
    """The setup of a one-dimensional launch over all points of the axes.

    There is a thread for each, unless `blocks` gives another number; with `stride`, there are at most as many blocks as
    the device runs at once.
    """
    blocks = blocks or "(total + threads - 1) / threads"
    return (
        f"const int total = {count_text(block, axes)};",
        f"const int threads = {threads};",
        *(bounded_blocks(blocks, threads) if stride else (f"const int blocks = {blocks};",)),
    )


def bounded_blocks(wanted: str, threads: int) -> tuple[str, ...]:
    """The lines that set the number of blocks of a loop that goes on from any number of them."""
    each = MOST_THREADS // threads
    return (
        f"const int resident = {each} * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;",
        f"const int blocks = std::min({wanted}, resident);  // no more than run at once",
    )


def allocation(buffer: Buffer, first: str, dtype: str) -> str:
    """The line that makes a tensor, with the options of the tensor `first`, which has the given type."""
    options = f"{first}.options()" + ("" if buffer.dtype == dtype else f".dtype({TORCH_TYPES[buffer.dtype]})")
    made = "zeros" if buffer.zeroed else "empty"
    return f"auto {buffer.name} = torch::{made}({shape_text(buffer.shape)}, {options});"


def shape_text(shape: Sequence[Index]) -> str:
    """A shape as C++ writes it."""
    printer = Printer({}, {})
    return "{" + ", ".join(printer.index(size) for size in shape) + "}"
