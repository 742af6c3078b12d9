"""The host side of a candidate: checks, sizes, allocation, launches and the result."""

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from musadata.compiler.emission.cpp import Printer
from musadata.compiler.emission.launch import TORCH_TYPES, EmittedKernel, allocation, constant, shape_of
from musadata.compiler.emission.launch_blocks import fold_blocks
from musadata.compiler.emission.shared_kernels import SharedKernels, SharedLaunch
from musadata.compiler.emission.step_functions import StepFunctions, as_left, over_steps
from musadata.compiler.ir.captured_graph import Graph, GraphInput
from musadata.compiler.ir.code import (
    Assign,
    Binary,
    Blank,
    Body,
    Braces,
    Constant,
    Construct,
    Declare,
    Element,
    Expression,
    Function,
    Invoke,
    Jump,
    Method,
    Name,
    Parameter,
    Run,
    Scope,
    Statement,
    Template,
    apply,
    code,
    every,
    product,
)
from musadata.compiler.ir.index_formulas import Index, Size, of
from musadata.compiler.ir.scalar import Buffer

STATE_LISTS = {"weights": "parameters", "buffers": "buffers"}  # names of lists, and the model's methods that give them
MOST_NAMED = 24  # tensors of the model that the host function takes one by one
MOST_IN_SHORT = 10  # the same where every kernel has a function that launches it
_STREAM = Declare("cudaStream_t", ((Name("stream"), apply("at::cuda::getCurrentCUDAStream")),))
_LIST_CHECK = """for (auto& tensor : {name}) {{
    TORCH_CHECK(tensor.is_cuda(), "{name} must be CUDA tensors");
    tensor = tensor.contiguous();
}}
"""


@dataclass(frozen=True)
class Returned:
    """One tensor that the host function returns: a buffer, viewed in another shape or with its axes permuted."""

    buffer: Buffer
    shape: tuple[Index, ...] | None = None
    order: tuple[int, ...] | None = None


@dataclass(frozen=True)
class HostFunction:
    """The C++ function that Python calls. It takes the tensors `parameters`, then `numbers`, the integers first, then
    `lists` of the model's tensors, by the names in `STATE_LISTS`, and reads `sizes` from tensors. `routines` are the
    functions that it calls, and the function itself."""

    name: str
    parameters: tuple[tuple[GraphInput, Buffer], ...]
    sizes: frozenset[str]
    numbers: tuple[str, ...]
    lists: tuple[str, ...]
    routines: tuple[Function, ...]


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
    `folded`, launches that repeat have functions of their own."""
    kernels = shared.kernels
    buffers = [b for emitted in kernels for b in emitted.kernel.outputs]
    sizes = _needed_sizes(graph, kernels, buffers, returned)
    needed = _parameters(graph, inputs, kernels, sizes)
    listed = _listed_state(graph, needed, MOST_IN_SHORT if all(shared.launches) else MOST_NAMED)
    parameters = [(item, buffer) for item, buffer in needed if buffer not in listed]
    lists = tuple(one for one in STATE_LISTS if any(item.array == Name(one) for item in listed.values()))
    places = {(item.role, item.name): listed.get(buffer, Name(buffer.name)) for item, buffer in inputs}
    first = needed[0][1]
    device = Method(listed.get(first, Name(first.name)), "device")
    functions = StepFunctions([origin.name for origin in graph.sizes])
    statements = _statements(shared, first, listed, functions, {item.buffer for item in returned})
    result = Jump("return", _result(returned))
    blocks: list[Function] = []
    if folded:
        kinds = {**dict.fromkeys(sizes, "int"), **dict.fromkeys(graph.numbers, "double")}
        names = {*sizes, *(b.name for _, b in inputs), *(b.name for b in buffers)}
        names |= {emitted.kernel.name for emitted in kernels}
        statements, blocks = fold_blocks(statements, result, lambda one: kinds.get(one, "tensor"), names)
    body = (
        *_checks(needed, listed, lists, graph.shaped),
        *_size_statements(graph, sizes, places),
        *_conditions(graph),
        Construct("c10::cuda::CUDAGuard", Name("device_guard"), (device,)),
        *(() if all(shared.launches) else (_STREAM,)),
        Blank(),
        *statements,
        result,
    )
    kind = "torch::Tensor" if len(returned) == 1 else "std::vector<torch::Tensor>"
    used = {name for emitted in kernels for name in emitted.sizes}
    integers = [size.name for size in graph.sizes if size.attribute and size.name in sizes]
    numbers = [number for number in graph.numbers if number in used]
    named: dict[str, Sequence[str]] = {
        "torch::Tensor": [b.name for _, b in parameters],
        "int": integers,
        "double": numbers,
    }
    named["std::vector<torch::Tensor>"] = lists
    taken = tuple(Parameter(one, Name(given)) for one, names in named.items() for given in names)
    read = frozenset(size.name for size in graph.sizes if not size.attribute and size.name in sizes)
    routines = (*functions.routines, *blocks, Function(f"{kind} ", Name(name), taken, body))
    return HostFunction(name, tuple(parameters), read, (*integers, *numbers), lists, routines)


def _listed_state(graph: Graph, parameters: Sequence[tuple[GraphInput, Buffer]], most: int) -> dict[Buffer, Element]:
    """The model's tensors as elements of lists of all its parameters and buffers, if they are too many for names."""
    state = [(item, buffer) for item, buffer in parameters if item.role == "state"]
    if len(state) <= most:
        return {}
    places: dict[str, Element] = {}
    for one, method in STATE_LISTS.items():
        names = [entry["name"] for entry in graph.state if f"{entry['role']}s" == method]
        places |= {name: Name(one)[place] for place, name in enumerate(names)}
    return {buffer: places[item.name] for item, buffer in state}


def _statements(
    shared: SharedKernels, first: Buffer, listed: Mapping[Buffer, Element], functions: StepFunctions, kept: set[Buffer]
) -> list[Statement]:
    """What launches the kernels, in order. `kept` are the buffers that are returned."""
    found: list[Statement] = []
    pairs = list(zip(shared.kernels, shared.launches, strict=True))
    for steps, group in groupby(pairs, key=lambda pair: pair[0].kernel.steps):
        members = list(group)
        if steps is None:
            found += [one for member in members for one in _statement(*member, first, listed, len(pairs) > 1)]
            continue
        launched = [(emitted, launch) for emitted, launch in members if launch is not None]
        if len(launched) == len(members):
            others = (emitted.kernel for emitted, _ in pairs if emitted.kernel.steps is not steps)
            read = {buffer for kernel in others for buffer in kernel.inputs}
            found.append(functions.call(launched, listed, read | kept))
        else:
            found += _steps(members, first, listed)
    return found


def _steps(
    members: Sequence[tuple[EmittedKernel, SharedLaunch | None]], first: Buffer, listed: Mapping[Buffer, Element]
) -> Body:
    """A loop over the steps of a recurrent layer."""
    inside = [one for member in members for one in _statement(*member, first, listed, True)]
    made = [b for emitted, _ in members for b in emitted.kernel.outputs]
    read = dict.fromkeys(buffer for emitted, _ in members for buffer in emitted.kernel.inputs)
    return (
        *(allocation(buffer, listed.get(first, Name(first.name)), first.dtype) for buffer in made),
        *(as_left(Name(b.name), Name(b.alias.name)) for b in read if b.alias),
        over_steps(members[0][0].kernel, [one for one in inside if not isinstance(one, Blank)]),
        Blank(),
    )


def _statement(
    emitted: EmittedKernel, launch: SharedLaunch | None, first: Buffer, listed: Mapping[Buffer, Element], many: bool
) -> Body:
    """What makes a kernel's results."""
    if launch is not None:
        tensors = (listed.get(buffer, Name(buffer.name)) for buffer in launch.tensors)
        outputs = tuple(Name(buffer.name) for buffer in launch.outputs)
        return (Invoke(launch.function, (*tensors, *launch.values), outputs),)
    aliases = [Declare("torch::Tensor&", ((Name(b.name), listed[b]),)) for b in emitted.kernel.inputs if b in listed]
    made = [] if emitted.kernel.steps else emitted.kernel.outputs
    allocations = [allocation(buffer, Name(first.name), first.dtype) for buffer in made]
    if not many:
        return (*aliases, *allocations, emitted.host)
    return (*allocations, Scope((*aliases, emitted.host)), Blank())


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
    needed: Sequence[tuple[GraphInput, Buffer]],
    listed: Mapping[Buffer, Element],
    lists: Sequence[str],
    shaped: Collection[str],
) -> Iterator[Statement]:
    parameters = [(item, b) for item, b in needed if b not in listed]
    for item, b in parameters:
        yield Run(apply("CHECK_INPUT", b.name, TORCH_TYPES[b.dtype], len(item.type.shape)))
    checked = set[tuple[tuple[int, int], ...]]()  # of layers that are alike the first is enough: one argument makes all
    for item, b in needed:
        fixed = tuple((d, size.constant) for d, size in enumerate(item.type.shape) if size.constant is not None)
        if fixed and (item.role == "argument" or item.name in shaped) and not (b in listed and fixed in checked):
            tensor = listed.get(b, Name(b.name))
            test = every(*(Method(tensor, "size", (code(d),)).equals(size) for d, size in fixed))
            yield Run(apply("TORCH_CHECK", test, Constant(f'"{b.name} has an unexpected shape"')))
            checked |= {fixed} if b in listed else set()
    for _, b in parameters:
        yield Assign(Name(b.name), "=", Method(Name(b.name), "contiguous"))
    for one in lists:
        yield Template((_LIST_CHECK.format(name=one),))
    yield Blank()


def _size_statements(
    graph: Graph, sizes: set[str], tensors: Mapping[tuple[str, str], Expression]
) -> Iterator[Statement]:
    needed = [origin for origin in graph.sizes if origin.name in sizes]
    if least := [Name(origin.name) >= origin.least for origin in needed if origin.attribute]:
        yield _check(every(*least))
    for origin in needed:
        if not origin.attribute:
            formula = None if origin.formula is None else factored(origin.formula)
            tensor = tensors.get((origin.role, origin.tensor), Name(""))
            yield constant(origin.name, formula or Method(tensor, "size", (code(origin.dim),)))


def factored(formula: Index) -> Expression:
    """A formula of sizes; a product of two sums as such, as the number of windows along both sides of an image is."""
    printer = Printer()
    terms = dict(formula.terms)
    pairs = [monomial for monomial, coefficient in formula.terms if len(monomial) == 2 and coefficient == 1]
    if len(terms) == 4 and len(pairs) == 1:
        one, other = map(of, pairs[0])
        sums = one + terms.get(other.terms[0][0], 0), other + terms.get(one.terms[0][0], 0)
        if sums[0] * sums[1] == formula:
            return product(*map(printer.index, sums))
    return printer.index(formula)


def _conditions(graph: Graph) -> Iterator[Statement]:
    printer = Printer()
    distinct = {(c.left - c.right, c.relation): c for c in reversed(graph.conditions)}
    for c in graph.conditions:
        if distinct[c.left - c.right, c.relation] is c:
            yield _check(Binary(printer.index(c.left), c.relation, printer.index(c.right)))


def _check(test: Expression) -> Statement:
    line = f'TORCH_CHECK({test}, "the kernels are written for {test}");\n'
    if len(line) > 111:
        first = textwrap.fill(f"TORCH_CHECK({test},", 100, subsequent_indent=" " * 12)
        line = f'{first}\n            "the kernels are not written for these sizes");\n'
    return Template((line,))


def _result(returned: Sequence[Returned]) -> Expression:
    found: list[Expression] = []
    for item in returned:
        made: Expression = Name(item.buffer.name)
        if item.shape is not None:
            made = Method(made, "view", (shape_of(item.shape),))
        if item.order is not None:
            made = Method(made, "permute", (Braces(tuple(map(code, item.order))),))
        found.append(made)
    return found[0] if len(found) == 1 else Braces(tuple(found))
