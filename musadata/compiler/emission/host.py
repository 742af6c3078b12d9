"""The host side of a candidate: checks, sizes, allocation, launches and the result."""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from musadata.compiler.emission.cpp import Printer
from musadata.compiler.emission.launch import TORCH_TYPES, EmittedKernel, allocation, line_of, shape_of
from musadata.compiler.emission.launch_blocks import fold_blocks
from musadata.compiler.emission.repeated_launches import Launch, Statement, write_launches
from musadata.compiler.emission.shared_kernels import SharedKernels, SharedLaunch
from musadata.compiler.emission.step_functions import STEP_NAME, StepFunctions
from musadata.compiler.ir.captured_graph import Graph, GraphInput, SizeOrigin
from musadata.compiler.ir.code import product
from musadata.compiler.ir.index_formulas import Index, Size, of
from musadata.compiler.ir.scalar import Buffer

STATE_LISTS = {"weights": "parameters", "buffers": "buffers"}  # names of lists, and the model's methods that give them
MOST_NAMED = 24  # tensors of the model that the host function takes one by one
MOST_IN_SHORT = 10  # the same where every kernel has a function that launches it


@dataclass(frozen=True)
class Returned:
    """One tensor that the host function returns: a buffer, viewed in another shape or with its axes permuted."""

    buffer: Buffer
    shape: tuple[Index, ...] | None = None
    order: tuple[int, ...] | None = None


@dataclass(frozen=True)
class HostFunction:
    """The C++ function that Python calls. It takes the tensors `parameters`, then `numbers`, the integers first, then
    `lists` of the model's tensors, by the names in `STATE_LISTS`, and reads `sizes` from tensors."""

    name: str
    parameters: tuple[tuple[GraphInput, Buffer], ...]
    sizes: frozenset[str]
    numbers: tuple[str, ...]
    lists: tuple[str, ...]
    declaration: str
    source: str


def write_host(
    name: str,
    graph: Graph,
    inputs: Sequence[tuple[GraphInput, Buffer]],
    shared: SharedKernels,
    returned: Sequence[Returned],
    *,
    folded: bool = False,
) -> HostFunction:
    """The function that allocates, launches and returns. Each buffer is allocated before the kernel that fills it. If
    `folded`, launches that repeat have functions of their own.
    """
    kernels = shared.kernels
    buffers = [b for emitted in kernels for b in emitted.kernel.outputs]
    sizes = _needed_sizes(graph, kernels, buffers, returned)
    needed = _parameters(graph, inputs, kernels, sizes)
    listed = _listed_state(graph, needed, MOST_IN_SHORT if all(shared.launches) else MOST_NAMED)
    parameters = [(item, buffer) for item, buffer in needed if buffer not in listed]
    lists = tuple(one for one in STATE_LISTS if any(text.startswith(one) for text in listed.values()))
    texts = {(item.role, item.name): listed.get(buffer, buffer.name) for item, buffer in inputs}
    first = needed[0][1]
    lines = _checks(parameters, lists, graph.shaped)
    lines += _size_lines(graph, sizes, texts)
    lines += _condition_lines(graph)
    lines.append(f"const c10::cuda::CUDAGuard device_guard({listed.get(first, first.name)}.device());")
    if not all(shared.launches):
        lines.append("const cudaStream_t stream = at::cuda::getCurrentCUDAStream();")
    lines.append("")
    result = f"return {_result(returned)};"
    names = {*sizes, *(b.name for _, b in inputs), *(b.name for b in buffers)}
    functions = StepFunctions([origin.name for origin in graph.sizes])
    statements = _statements(shared, first, listed, functions, {item.buffer for item in returned})
    blocks: list[str] = []
    if folded:
        kinds = {**dict.fromkeys(sizes, "int"), **dict.fromkeys(graph.numbers, "double")}
        names |= {emitted.kernel.name for emitted in kernels}
        statements, blocks = fold_blocks(statements, result, lambda one: kinds.get(one, "tensor"), names)
    lines += write_launches(statements, result, names)
    lines.append(result)
    kind = "torch::Tensor" if len(returned) == 1 else "std::vector<torch::Tensor>"
    used = {name for emitted in kernels for name in emitted.sizes}
    integers = [size.name for size in graph.sizes if size.attribute and size.name in sizes]
    numbers = [number for number in graph.numbers if number in used]
    taken = [f"torch::Tensor {buffer.name}" for _, buffer in parameters]
    taken += [*(f"int {name}" for name in integers), *(f"double {number}" for number in numbers)]
    taken += [f"std::vector<torch::Tensor> {one}" for one in lists]
    head = f"{kind} {name}({', '.join(taken)})"
    if len(head) > 110:
        head = f"{kind} {name}(\n    " + ",\n    ".join(taken) + ")"
    body = "\n".join(f"    {line}" if line else "" for line in lines)
    source = "\n".join([*functions.texts, *blocks, f"{head} {{\n{body}\n}}\n"])
    read = frozenset(size.name for size in graph.sizes if not size.attribute and size.name in sizes)
    return HostFunction(name, tuple(parameters), read, (*integers, *numbers), lists, f"{head};", source)


def _listed_state(graph: Graph, parameters: Sequence[tuple[GraphInput, Buffer]], most: int) -> dict[Buffer, str]:
    """The model's tensors as elements of lists of all its parameters and buffers, if they are too many for names."""
    state = [(item, buffer) for item, buffer in parameters if item.role == "state"]
    if len(state) <= most:
        return {}
    places: dict[str, str] = {}
    for one, method in STATE_LISTS.items():
        names = [entry["name"] for entry in graph.state if f"{entry['role']}s" == method]
        places |= {name: f"{one}[{place}]" for place, name in enumerate(names)}
    return {buffer: places[item.name] for item, buffer in state}


def _statements(
    shared: SharedKernels, first: Buffer, listed: Mapping[Buffer, str], functions: StepFunctions, kept: set[Buffer]
) -> list[Statement]:
    """What launches the kernels, in order. `kept` are the buffers that are returned."""
    found: list[Statement] = []
    pairs = list(zip(shared.kernels, shared.launches, strict=True))
    for steps, group in groupby(pairs, key=lambda pair: pair[0].kernel.steps):
        members = list(group)
        if steps is None:
            found += [_statement(*member, first, listed, len(pairs) > 1) for member in members]
            continue
        launched = [(emitted, launch) for emitted, launch in members if launch is not None]
        if len(launched) == len(members):
            others = (emitted.kernel for emitted, _ in pairs if emitted.kernel.steps is not steps)
            read = {buffer for kernel in others for buffer in kernel.inputs}
            found.append(functions.call(launched, listed, read | kept))
        else:
            found.append(_steps(members, first, listed))
    return found


def _steps(
    members: Sequence[tuple[EmittedKernel, SharedLaunch | None]], first: Buffer, listed: Mapping[Buffer, str]
) -> Statement:
    """A loop over the steps of a recurrent layer."""
    kernels = [emitted.kernel for emitted, _ in members]
    lines = [line_of(allocation(b, listed.get(first, first.name), first.dtype)) for k in kernels for b in k.outputs]
    read = dict.fromkeys(buffer for kernel in kernels for buffer in kernel.inputs)
    lines += [f"const auto {b.name} = {b.alias.name};  // as earlier steps leave it" for b in read if b.alias]
    steps = kernels[0].steps
    assert steps is not None
    lines.append(f"for (int {STEP_NAME} = 0; {STEP_NAME} < {Printer().index(steps.count)}; ++{STEP_NAME}) {{")
    for emitted, launch in members:
        statement = _statement(emitted, launch, first, listed, True)
        inner = statement.text.splitlines() if isinstance(statement, Launch) else statement
        lines += [f"    {line}" for line in inner if line]
    return (*lines, "}", "")


def _statement(
    emitted: EmittedKernel, launch: SharedLaunch | None, first: Buffer, listed: Mapping[Buffer, str], many: bool
) -> Statement:
    if launch is not None:
        tensors = (listed.get(buffer, buffer.name) for buffer in launch.tensors)
        outputs = tuple(buffer.name for buffer in launch.outputs)
        return Launch(launch.function, (*tensors, *launch.values), outputs)
    aliases = {b: listed[b] for b in emitted.kernel.inputs if b in listed}
    lines = [f"const torch::Tensor& {buffer.name} = {text};" for buffer, text in aliases.items()]
    return tuple(_allocate_and_launch(emitted, lines, first, many))


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


def _checks(
    parameters: Sequence[tuple[GraphInput, Buffer]], lists: Sequence[str], shaped: Collection[str]
) -> list[str]:
    lines = [f"CHECK_INPUT({b.name}, {TORCH_TYPES[b.dtype]}, {len(item.type.shape)});" for item, b in parameters]
    for item, buffer in parameters:
        fixed = [(d, size.constant) for d, size in enumerate(item.type.shape) if size.constant is not None]
        if fixed and (item.role == "argument" or item.name in shaped):
            test = " && ".join(f"{buffer.name}.size({d}) == {size}" for d, size in fixed)
            lines.append(f'TORCH_CHECK({test}, "{buffer.name} has an unexpected shape");')
    lines += [f"{buffer.name} = {buffer.name}.contiguous();" for _, buffer in parameters]
    for one in lists:
        lines.append(f"for (auto& tensor : {one}) {{")
        lines.append(f'    TORCH_CHECK(tensor.is_cuda(), "{one} must be CUDA tensors");')
        lines += ["    tensor = tensor.contiguous();", "}"]
    return [*lines, ""]


def _size_lines(graph: Graph, sizes: set[str], names: Mapping[tuple[str, str], str]) -> list[str]:
    def text(origin: SizeOrigin) -> str:
        if origin.formula is not None:
            return factored_text(origin.formula)
        return f"{names[origin.role, origin.tensor]}.size({origin.dim})"

    needed = [origin for origin in graph.sizes if origin.name in sizes]
    least = " && ".join(f"{origin.name} >= {origin.least}" for origin in needed if origin.attribute)
    lines = _wrapped_check(least) if least else []
    return lines + [f"const int {origin.name} = {text(origin)};" for origin in needed if not origin.attribute]


def factored_text(formula: Index) -> str:
    """A formula of sizes; a product of two sums as such, as the number of windows along both sides of an image is."""
    printer = Printer()
    terms = dict(formula.terms)
    pairs = [monomial for monomial, coefficient in formula.terms if len(monomial) == 2 and coefficient == 1]
    if len(terms) == 4 and len(pairs) == 1:
        one, other = map(of, pairs[0])
        sums = one + terms.get(other.terms[0][0], 0), other + terms.get(one.terms[0][0], 0)
        if sums[0] * sums[1] == formula:
            return product(*map(printer.index, sums)).text
    return printer.index(formula).text


def _condition_lines(graph: Graph) -> list[str]:
    printer = Printer()
    distinct = {(c.left - c.right, c.relation): c for c in reversed(graph.conditions)}
    conditions = [c for c in graph.conditions if distinct[c.left - c.right, c.relation] is c]
    tests = [f"{printer.index(c.left)} {c.relation} {printer.index(c.right)}" for c in conditions]
    return [line for test in tests for line in _wrapped_check(test)]


def _wrapped_check(test: str) -> list[str]:
    line = f'TORCH_CHECK({test}, "the kernels are written for {test}");'
    if len(line) <= 110:
        return [line]
    first, *rest = textwrap.wrap(f"TORCH_CHECK({test},", 100, subsequent_indent=" " * 12)
    return [first, *rest, '            "the kernels are not written for these sizes");']


def _allocate_and_launch(emitted: EmittedKernel, aliases: Sequence[str], first: Buffer, many: bool) -> list[str]:
    made = () if emitted.kernel.steps else emitted.kernel.outputs
    lines = [line_of(allocation(buffer, first.name, first.dtype)) for buffer in made]
    if not many:
        return [*aliases, *lines, *emitted.launch]
    return [*lines, "{", *(f"    {line}" for line in (*aliases, *emitted.launch)), "}", ""]


def _result(returned: Sequence[Returned]) -> str:
    texts = []
    for item in returned:
        text = item.buffer.name
        if item.shape is not None:
            text += f".view({shape_of(item.shape)})"
        if item.order is not None:
            text += ".permute({" + ", ".join(map(str, item.order)) + "})"
        texts.append(text)
    return texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}"
