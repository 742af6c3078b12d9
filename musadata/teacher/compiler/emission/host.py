"""The host side of a candidate: checks, sizes, allocation, launches and the result."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from musadata.teacher.compiler.emission.cpp import Printer
from musadata.teacher.compiler.emission.launch import EmittedKernel
from musadata.teacher.compiler.ir.captured_graph import Graph, GraphInput, SizeOrigin
from musadata.teacher.compiler.ir.index_formulas import Index, Size
from musadata.teacher.compiler.ir.scalar import Buffer

_SCALAR_TYPES = ("Bool", "UInt8", "Int8", "Int16", "Int32", "Int64", "Float16", "BFloat16", "Float32", "Float64")
TORCH_TYPES = {name.lower(): f"torch::k{name}" for name in _SCALAR_TYPES}


@dataclass(frozen=True)
class Returned:
    """One tensor that the host function returns: a buffer, viewed in another shape or with its axes permuted."""

    buffer: Buffer
    shape: tuple[Index, ...] | None = None
    order: tuple[int, ...] | None = None


@dataclass(frozen=True)
class HostFunction:
    """The C++ function that Python calls. It takes the tensors `parameters`, then `numbers`, the integers first."""

    name: str
    parameters: tuple[tuple[GraphInput, Buffer], ...]
    numbers: tuple[str, ...]
    declaration: str
    source: str


def write_host(
    name: str,
    graph: Graph,
    inputs: Sequence[tuple[GraphInput, Buffer]],
    kernels: Sequence[EmittedKernel],
    returned: Sequence[Returned],
) -> HostFunction:
    """The function that allocates, launches and returns. Each buffer is allocated before the kernel that fills it."""
    buffers = [b for emitted in kernels for b in emitted.kernel.outputs]
    sizes = _needed_sizes(graph, kernels, buffers, returned)
    parameters = _parameters(graph, inputs, kernels, sizes)
    lines = _checks(parameters)
    lines += _size_lines(graph, sizes, {(item.role, item.name): buffer.name for item, buffer in inputs})
    lines += _condition_lines(graph)
    first = parameters[0][1].name
    lines += [
        f"const c10::cuda::CUDAGuard device_guard({first}.device());",
        "const cudaStream_t stream = at::cuda::getCurrentCUDAStream();",
        "",
    ]
    for emitted in kernels:
        lines += _allocate_and_launch(emitted, first, parameters, len(kernels) > 1)
    lines.append(f"return {_result(returned)};")
    kind = "torch::Tensor" if len(returned) == 1 else "std::vector<torch::Tensor>"
    used = {name for emitted in kernels for name in emitted.sizes}
    integers = [size.name for size in graph.sizes if size.attribute and size.name in sizes]
    numbers = [number for number in graph.numbers if number in used]
    listed = [f"torch::Tensor {buffer.name}" for _, buffer in parameters]
    listed += [*(f"int {name}" for name in integers), *(f"double {number}" for number in numbers)]
    head = f"{kind} {name}({', '.join(listed)})"
    if len(head) > 110:
        head = f"{kind} {name}(\n    " + ",\n    ".join(listed) + ")"
    body = "\n".join(f"    {line}" if line else "" for line in lines)
    return HostFunction(name, tuple(parameters), (*integers, *numbers), f"{head};", f"{head} {{\n{body}\n}}\n")


def _needed_sizes(
    graph: Graph, kernels: Sequence[EmittedKernel], buffers: Sequence[Buffer], returned: Sequence[Returned]
) -> set[str]:
    needed = {name for emitted in kernels for name in emitted.sizes}
    shapes = [*(b.shape for b in buffers), *(r.shape for r in returned if r.shape)]
    shapes += [(condition.left, condition.right) for condition in graph.conditions]
    needed |= {a.name for shape in shapes for size in shape for a in size.atoms() if isinstance(a, Size)}
    for origin in reversed(graph.sizes):  # derived sizes come after those that they are made from
        if origin.name in needed and origin.formula is not None:
            needed |= {atom.name for atom in origin.formula.atoms() if isinstance(atom, Size)}
    return needed


def _parameters(
    graph: Graph, inputs: Sequence[tuple[GraphInput, Buffer]], kernels: Sequence[EmittedKernel], sizes: set[str]
) -> list[tuple[GraphInput, Buffer]]:
    """Arguments of forward first, then parameters and buffers: only those that are read or measured."""
    read = {buffer for emitted in kernels for buffer in emitted.kernel.inputs}
    measured = {(origin.role, origin.tensor) for origin in graph.sizes if origin.name in sizes}
    kept = [(item, buffer) for item, buffer in inputs if buffer in read or (item.role, item.name) in measured]
    return sorted(kept, key=lambda pair: pair[0].role != "argument")


def _checks(parameters: Sequence[tuple[GraphInput, Buffer]]) -> list[str]:
    lines = [f"CHECK_INPUT({b.name}, {TORCH_TYPES[b.dtype]}, {len(item.type.shape)});" for item, b in parameters]
    for item, buffer in parameters:
        fixed = [(d, size.constant) for d, size in enumerate(item.type.shape) if size.constant is not None]
        if item.role == "argument" and fixed:
            test = " && ".join(f"{buffer.name}.size({d}) == {size}" for d, size in fixed)
            lines.append(f'TORCH_CHECK({test}, "{buffer.name} has an unexpected shape");')
    lines += [f"{buffer.name} = {buffer.name}.contiguous();" for _, buffer in parameters]
    return [*lines, ""]


def _size_lines(graph: Graph, sizes: set[str], names: Mapping[tuple[str, str], str]) -> list[str]:
    def text(origin: SizeOrigin) -> str:
        if origin.formula is not None:
            return Printer({}, {}).index(origin.formula)
        return f"{names[origin.role, origin.tensor]}.size({origin.dim})"

    needed = [origin for origin in graph.sizes if origin.name in sizes]
    least = " && ".join(f"{origin.name} >= {origin.least}" for origin in needed if origin.attribute)
    lines = _wrapped_check(least) if least else []
    return lines + [f"const int {origin.name} = {text(origin)};" for origin in needed if not origin.attribute]


def _condition_lines(graph: Graph) -> list[str]:
    printer = Printer({}, {})
    tests = [f"{printer.index(c.left)} {c.relation} {printer.index(c.right)}" for c in graph.conditions]
    return [line for test in tests for line in _wrapped_check(test)]


def _wrapped_check(test: str) -> list[str]:
    line = f'TORCH_CHECK({test}, "the kernels are written for {test}");'
    if len(line) <= 110:
        return [line]
    first, *rest = textwrap.wrap(f"TORCH_CHECK({test},", 100, subsequent_indent=" " * 12)
    return [first, *rest, '            "the kernels are not written for these sizes");']


def _allocate_and_launch(
    emitted: EmittedKernel, first: str, parameters: Sequence[tuple[GraphInput, Buffer]], many: bool
) -> list[str]:
    lines = [_allocation(buffer, first, parameters[0][1].dtype) for buffer in emitted.kernel.outputs]
    if not many:
        return [*lines, *emitted.launch]
    return [*lines, "{", *(f"    {line}" for line in emitted.launch), "}", ""]


def _allocation(buffer: Buffer, first: str, dtype: str) -> str:
    options = f"{first}.options()" + ("" if buffer.dtype == dtype else f".dtype({TORCH_TYPES[buffer.dtype]})")
    made = "zeros" if buffer.zeroed else "empty"
    return f"auto {buffer.name} = torch::{made}({shape_text(buffer.shape)}, {options});"


def shape_text(shape: Sequence[Index]) -> str:
    """A shape as C++ writes it."""
    printer = Printer({}, {})
    return "{" + ", ".join(printer.index(size) for size in shape) + "}"


def _result(returned: Sequence[Returned]) -> str:
    texts = []
    for item in returned:
        text = item.buffer.name
        if item.shape is not None:
            text += f".view({shape_text(item.shape)})"
        if item.order is not None:
            text += ".permute({" + ", ".join(map(str, item.order)) + "})"
        texts.append(text)
    return texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}"
