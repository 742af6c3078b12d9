"""A whole candidate from a graph and a plan."""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from string import Template

from musadata.compiler.emission.attention import can_attend
from musadata.compiler.emission.cpp import C_TYPES, device_function, number_text
from musadata.compiler.emission.emit import emit, emit_alike
from musadata.compiler.emission.host import HostFunction, Returned, write_host
from musadata.compiler.emission.launch import EmittedKernel, NumberName, printed
from musadata.compiler.emission.module import Module, write_module
from musadata.compiler.emission.schedule_costs import cost_of
from musadata.compiler.emission.schedule_plan import PLANS, Plan, choose
from musadata.compiler.emission.shared_kernels import SharedKernels, can_share, share_kernels
from musadata.compiler.emission.short_names import shorten
from musadata.compiler.emission.step_functions import STEP
from musadata.compiler.ir.captured_graph import Graph, GraphOutput, TensorType
from musadata.compiler.ir.code import Constant, Function, walk
from musadata.compiler.ir.index_formulas import ONE, Index, of, product
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.compiler.ir.program import Loop, Program, Value, axis_names
from musadata.compiler.ir.scalar import Buffer, Load
from musadata.compiler.ir.schedule import Combine, Schedule, TensorCore
from musadata.compiler.lowering import Lowered, lower_graph
from musadata.compiler.lowering.attention import join_attention
from musadata.compiler.lowering.ending_rows import end_rows
from musadata.compiler.lowering.fusion import Kernel, group_loops
from musadata.compiler.lowering.inlining import inline_pointwise, read_loops, without_repeats
from musadata.compiler.lowering.layout import flat_position, flatten
from musadata.compiler.lowering.loop_points import variables_of
from musadata.compiler.lowering.splitting import split_attention, split_long_reductions
from musadata.operators import column
from musadata.tracing.roofline import H100

MOST_CHARACTERS = 30_000  # of a candidate: longer ones are too long to learn from
_MOST_INT = 2**31 - 1

_TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE = Template(_TEMPLATES.joinpath("cuda_source.txt").read_text(encoding="utf-8"))
_LAUNCHING = _TEMPLATES.joinpath("launching.txt").read_text(encoding="utf-8")
# Types of tensors, and constants, that need a header.
_TYPE_HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}
_CONSTANT_HEADERS = {"INT64": "cstdint", "INFINITY": "cmath", "SCHAR": "climits", "INT": "climits"}


class _Attempt(Enum):
    """How a graph is written; the next one is tried where a candidate is too long."""

    FULL = "under full names"
    SHORT = "under short names, with which more kernels share their code"
    APART = "with layers lowered alike, and statistics of columns in kernels of their own, which share more of it"


Part = str | Function


@dataclass(frozen=True)
class Candidate:
    """A complete candidate.

    Attributes:
        opening: the beginning of its CUDA C++: headers and constants.
        parts: what follows: device functions, kernels, and functions of the host, of which Python calls the last.
        module: the Python around it.
        kernels: its kernels in order, with their schedules.
        plan: how it was made.
        hints: the named sizes in each of the task's sets of shapes.
        host: what the host function takes and reads.
    """

    opening: str
    parts: tuple[Part, ...]
    module: Module
    kernels: tuple[EmittedKernel, ...]
    plan: Plan
    graph: Graph
    hints: tuple[dict[str, int], ...]
    host: HostFunction

    @cached_property
    def source(self) -> str:
        """The Python module that defines `ModelNew`."""
        return self.module.around("\n".join([self.opening.rstrip("\n") + "\n", *map(printed, self.parts)]))

    @property
    def names(self) -> tuple[str, ...]:
        """The kernel of each launch; those with the same code share one, which depends on the schedules."""
        return tuple(emitted.kernel.name for emitted in self.kernels)

    @property
    def schedule(self) -> str:
        """What was done, for people: the distinct schedules of its kernels."""
        parts = list(dict.fromkeys(emitted.schedule.label for emitted in self.kernels))
        count = f"{len(self.kernels)} kernels" if len(self.kernels) > 1 else "1 kernel"
        return f"{count}: {'; '.join(parts)}"

    @property
    def shape(self) -> tuple[Schedule, ...]:
        """What makes candidates of one task structurally different: the schedule of each kernel."""
        return tuple(emitted.schedule for emitted in self.kernels)


def build_candidate(graph: Graph, plan: Plan, sizes: Mapping[str, int] | None = None) -> Candidate:
    """Lower, group, schedule and print.

    Schedules are chosen for the given named sizes; without any, for the largest of the graph's sets of shapes.

    Raises:
        Unsupported: the graph holds something that the compiler has no form for.
    """
    try:
        return _build(graph, plan, sizes or {})
    except RecursionError as error:  # values that depend on hundreds of others in a row
        raise Unsupported("graph too large") from error


def _weighed(kernel: Kernel, known: Mapping[str, int]) -> EmittedKernel:
    """The kernel by the schedule, of those that plans give it, that is expected to be the fastest. Trees are left to
    shuffles, whose device functions have the same names."""
    schedules = {choose(kernel, plan, known): None for plan in PLANS}
    found = [emit(kernel, one) for one in schedules if not any(step == Combine("inner", "tree") for step in one.steps)]
    sizes = {STEP.name: 1, **known}
    costs = [(cost.rank if (cost := cost_of(one, sizes, H100)) else math.inf, one) for one in found]
    return min(costs, key=lambda pair: pair[0])[1]


def _build(graph: Graph, plan: Plan, sizes: Mapping[str, int]) -> Candidate:
    hints = graph.hints()
    largest = max(hints, key=lambda known: product(_all_sizes(graph)).evaluate(known)) if hints else {}
    known = {**largest, **sizes}
    names = [*(size.name for size in graph.sizes), *map(NumberName, graph.numbers)]
    for attempt in _Attempt:
        if attempt is not _Attempt.SHORT:
            lowered = lower_graph(graph, alike=attempt is _Attempt.APART, fused=plan.fused)
            returned = _all_returned(lowered, graph)
            kept = {*(item.buffer for item in returned), *lowered.program.stored}
            kernels = _kernels(lowered.program, kept, known, attempt, plan.fused)
        if STEP.name not in names and any(kernel.steps for kernel in kernels):
            names.append(STEP.name)
            hints = [{**hint, STEP.name: 1} for hint in hints]
        kernels = [replace(kernel, size_names=tuple(names)) for kernel in kernels]
        if attempt is not _Attempt.FULL:
            brief = [shorten(kernel) for kernel in kernels]
            alike = emit_alike(brief, replace(plan, held=attempt is _Attempt.SHORT), known)
            pairs = zip(alike, kernels, strict=True)
            alone = [one if can_share(one) else emit(own, replace(one.schedule, alike=False)) for one, own in pairs]
            emitted = _with_wide_indices(alone, known)
            shared = share_kernels(emitted, kernels)
        else:
            one_by_one = [_weighed(k, known) if plan.weighed else emit(k, choose(k, plan, known)) for k in kernels]
            emitted = _with_wide_indices(one_by_one, known)
            shared = share_kernels(emitted)
        name, folded = f"{_title(graph)}_cuda", attempt is not _Attempt.FULL
        host = write_host(name, graph, lowered.inputs, shared, returned, folded=folded)
        parts = (*_functions(shared), *host.routines)
        module = write_module(graph, host)
        built = Candidate(_opening(shared.kernels), parts, module, shared.kernels, plan, graph, tuple(hints), host)
        if len(built.source) <= MOST_CHARACTERS:
            return built
    return built


def _with_wide_indices(kernels: Sequence[EmittedKernel], sizes: Mapping[str, int]) -> list[EmittedKernel]:
    """The kernels, with 64-bit integers in all if one reaches a tensor of more elements than an int can count: then
    they agree on the device functions that they share."""
    buffers = {buffer for one in kernels for buffer in (*one.kernel.inputs, *one.kernel.outputs)}
    is_huge = any(product(buffer.shape).evaluate(dict(sizes)) > _MOST_INT for buffer in buffers)
    return [one.with_wide_indices() for one in kernels] if is_huge else list(kernels)


def _all_returned(lowered: Lowered, graph: Graph) -> list[Returned]:
    """What the host function returns, in memory after the last kernel."""
    pairs = zip(lowered.outputs, graph.outputs, strict=True)
    returned = [_returned(value, output, lowered.program) for value, output in pairs]
    if not returned:
        raise Unsupported("returns no tensor")
    return returned


def _kernels(
    program: Program, kept: set[Buffer], sizes: Mapping[str, int], attempt: _Attempt, fused: bool
) -> list[Kernel]:
    """The kernels, with attention as one of them where its tiles can be cut out of what it stores."""
    apart = attempt is _Attempt.APART
    if not fused:
        return group_loops(read_loops(program.loops, kept), kept, fused=False)
    read = without_repeats(read_loops(program.loops, kept), kept)
    # A value that is computed where it is read may need less of what it is made from: the last of the largest few, say.
    loops = read_loops(inline_pointwise(read, kept, reductions_apart=apart), kept)

    def grouped(loops: Sequence[Loop]) -> list[Kernel]:
        return group_loops(split_long_reductions(loops, sizes, alike=apart), kept, columns_apart=apart)

    ended = end_rows(loops)
    if len(ended) > len(loops) and len(grouped(ended)) <= len(grouped(loops)):
        loops = ended
    attending = join_attention(loops, kept, sizes)
    kernels = grouped(attending if apart else split_attention(attending, sizes))
    if not all(can_attend(kernel) for kernel in kernels if kernel.attends):
        kernels = grouped(loops)
    return kernels


def _all_sizes(graph: Graph) -> list[Index]:
    return [of(a) for t in graph.inputs for size in t.type.shape for a in size.atoms()]  # type: ignore[misc]


def _title(graph: Graph) -> str:
    """A name for the host function: the operators that matter most, in order."""
    plain = [re.sub(r"_?\d+$", "", node.name) for node in graph.nodes]
    telling = [name for name in dict.fromkeys(plain) if name not in column("unnamed")]
    return "_".join(telling[:3]) or "forward"


def _returned(value: Value, output: GraphOutput, program: Program) -> Returned:
    """Materialize an output, with the reference's strides; a reshaped buffer is returned as a view, without a copy."""
    order = _memory_order(output)
    if order is not None:
        inverse = tuple(order.index(dim) for dim in range(len(order)))
        shape = tuple(output.type.shape[dim] for dim in order)
        names = axis_names(len(order))
        permuted = Value(
            f"{value.name}_storage",
            TensorType(shape, output.type.dtype),
            lambda index: value.load(tuple(index[inverse[d]] for d in range(len(index)))),
            1,
        )
        return Returned(program.materialize(permuted, tuple(names[dim] for dim in order)), None, inverse)
    if value.buffer is None:
        viewed = _viewed_buffer(value)
        if viewed is not None:
            return Returned(viewed, None if viewed.shape == output.type.shape else output.type.shape)
    return Returned(program.materialize(value))


def _memory_order(output: GraphOutput) -> tuple[int, ...] | None:
    """The dimensions from the farthest stride to the nearest, or None if that is the usual order."""
    shape, stride = output.type.shape, output.stride
    rank = len(shape)
    places: list[int] = []
    expected: Index = ONE
    left = [dim for dim in range(rank) if shape[dim] != ONE]
    while left:
        match = [dim for dim in reversed(left) if stride[dim] == expected]
        if not match:
            return None  # the reference returns a view with gaps; the values are what counts
        places.insert(0, match[0])
        left.remove(match[0])
        expected = expected * shape[match[0]]
    if places == sorted(places):
        return None
    ones = [dim for dim in range(rank) if shape[dim] == ONE]
    return (*ones, *places)


def _viewed_buffer(value: Value) -> Buffer | None:
    """The buffer that a value only reshapes, if the program fills that buffer."""
    index, variables = variables_of(axis_names(len(value.shape)), value.shape)
    loaded = value.load(index)
    if not isinstance(loaded, Load) or loaded.buffer.role != "temporary" or loaded.buffer.dtype != value.dtype:
        return None
    same_size = product(loaded.buffer.shape) == product(value.shape)
    flat = flat_position(variables)
    return loaded.buffer if same_size and flatten(loaded.index, loaded.buffer.shape) == flat else None


def _opening(kernels: Sequence[EmittedKernel]) -> str:
    headers = "".join(f"#include <{header}>\n" for header in _headers(kernels))
    constants = "".join(_constant(buffer) for buffer in dict.fromkeys(b for e in kernels for b in e.kernel.constants))
    return TEMPLATE.substitute(headers=headers, constants=constants)


def _headers(kernels: Sequence[EmittedKernel]) -> list[str]:
    """The headers that kernels and their launches need."""
    reached = {b.dtype for one in kernels for b in (*one.kernel.inputs, *one.kernel.outputs, *one.kernel.constants)}
    found = [header for dtype, header in _TYPE_HEADERS.items() if dtype in reached]
    if any(one.schedule.find(TensorCore, "sums") for one in kernels):
        found.append("cuda_pipeline.h")
    if any(one.schedule.strides for one in kernels):
        found.append("algorithm")
    trees = [(one.helpers, one.function) for one in kernels]
    constants = {node.name.partition("_")[0] for tree in trees for node in walk(tree) if isinstance(node, Constant)}
    constants |= {"INFINITY"} if any(one.kernel.attends for one in kernels) else set()
    return found + list(dict.fromkeys(header for name, header in _CONSTANT_HEADERS.items() if name in constants))


def _constant(buffer: Buffer) -> str:
    values = ", ".join(number_text(value, buffer.dtype) for value in buffer.values)
    text = f"__constant__ {C_TYPES[buffer.dtype]} {buffer.name}[{len(buffer.values)}] = {{{values}}};"
    return "\n".join(textwrap.wrap(text, 110, subsequent_indent="    ")) + "\n\n"


def _functions(shared: SharedKernels) -> list[Part]:
    """The kernels, their device functions and the functions that launch them, each once."""
    called = dict.fromkeys(function for emitted in shared.kernels for function in emitted.functions)
    parts: dict[str, Part] = {text: text for text in (device_function(*one) for one in called)}
    for emitted in shared.kernels:
        if emitted.text not in parts:
            parts |= {printed(one): one for one in emitted.helpers if printed(one) not in parts}
            parts[emitted.text] = emitted.function
    launching = [_LAUNCHING] if shared.functions else []
    return [*parts.values(), *launching, *shared.functions]
