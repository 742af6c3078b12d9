"""What an emitted kernel is: its function, and how the host launches it."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from musadata.compiler.emission.block import INDEX, Block
from musadata.compiler.emission.cpp import C_TYPES, Printer
from musadata.compiler.ir.code import (
    Apply,
    Body,
    Braces,
    Construct,
    Declare,
    Expression,
    Function,
    Method,
    Name,
    Parameter,
    Some,
    Statement,
    apply,
    code,
    names_of,
    settle,
)
from musadata.compiler.ir.index_formulas import Index, Variable, product
from musadata.compiler.ir.printing import text_of, widened
from musadata.compiler.ir.scalar import Buffer
from musadata.compiler.ir.schedule import Schedule
from musadata.compiler.lowering.fusion import Kernel

_SCALAR_TYPES = ("Bool", "UInt8", "Int8", "Int16", "Int32", "Int64", "Float16", "BFloat16", "Float32", "Float64")
MOST_THREADS = 2048  # that a multiprocessor runs at once
TORCH_TYPES = {name.lower(): f"torch::k{name}" for name in _SCALAR_TYPES}
CHECK = "C10_CUDA_KERNEL_LAUNCH_CHECK();"
Helper = str | Function  # a device function: from a template, or of the kernel's own


class NumberName(str):
    """The name of a floating-point number that the host passes; other names are those of sizes."""


@dataclass(frozen=True)
class HostLaunch:
    """How the host launches a kernel.

    Attributes:
        setup: statements that define `blocks`, `threads` and what else the launch needs.
        kernel: its name, with its template's arguments.
        arguments: what it is given.
        aligned: the condition under which the instance for aligned rows is launched, of a kernel that has two.
        has_shared_bytes: shared memory is allocated at the launch.
        threads: of a block, as it stands in the launch: a variable, or in a function that launches it a number.
        stream: what the launch has for the stream.
    """

    setup: Body
    kernel: str
    arguments: tuple[Expression, ...]
    aligned: Expression | None = None
    has_shared_bytes: bool = False
    threads: str = "threads"
    stream: str = "stream"

    @cached_property
    def lines(self) -> tuple[str, ...]:
        lines = text_of(self.setup).splitlines()
        if self.aligned is None:
            return (*lines, *self._call(self.kernel), CHECK)
        yes, no = (self._call(f"{self.kernel}<{value}>") for value in ("true", "false"))
        head = textwrap.wrap(f"if ({self.aligned}) {{", 104, subsequent_indent=" " * 8, break_long_words=False)
        both = (*head, *(f"    {line}" for line in yes), "} else {", *(f"    {line}" for line in no), "}")
        return (*lines, *both, CHECK)

    def _call(self, name: str) -> list[str]:
        """The lines of a launch. More shared memory than 48 KB must be asked for."""
        attribute = f"{name}, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes"
        asked = [f"C10_CUDA_CHECK(cudaFuncSetAttribute({attribute}));"] if self.has_shared_bytes else []
        memory = "shared_bytes" if self.has_shared_bytes else "0"
        call = f"{name}<<<blocks, {self.threads}, {memory}, {self.stream}>>>("
        return [*asked, *f"{call}{_wrapped(list(map(str, self.arguments)), call, 4)});".splitlines()]

    def grid(self, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        """How many blocks there are along each axis for given sizes; None where the device decides it."""
        return settle(self.setup, sizes).get("blocks")


@dataclass(frozen=True)
class EmittedKernel:
    """CUDA C++ of one kernel.

    Attributes:
        kernel: what it computes.
        schedule: how its work is dealt to threads.
        functions: device functions that it calls: (name, dtype).
        helpers: further ones that stand before it.
        function: the `__global__` function.
        host: how the host launches it.
        sizes: names of the sizes and numbers that its launch refers to.
        threads: how many a block has, along x and further axes, in this launch: layers that share a kernel may differ.
        wide: positions have 64 bits.
        is_shared: a function of the host launches it, for several others as well.
    """

    kernel: Kernel
    schedule: Schedule
    functions: tuple[tuple[str, str], ...]
    helpers: tuple[Helper, ...]
    function: Function
    host: HostLaunch
    sizes: frozenset[str]
    threads: tuple[int, ...]
    wide: bool = False
    is_shared: bool = False

    @property
    def launch(self) -> tuple[str, ...]:
        """The host's lines that launch it."""
        return self.host.lines

    @cached_property
    def text(self) -> str:
        """The `__global__` function."""
        return text_of(self.function, wide=self.wide)

    def helper_texts(self) -> list[str]:
        """The device functions before it, each without the end of its last line."""
        plain = [one if isinstance(one, str) else text_of(one, wide=self.wide) for one in self.helpers]
        return [(widened(text) if self.wide else text).rstrip("\n") for text in plain]

    @cached_property
    def source(self) -> str:
        """Its device functions, and the `__global__` function."""
        return "\n\n".join([*self.helper_texts(), self.text])


def finish(
    kernel: Kernel,
    schedule: Schedule,
    block: Block,
    setup: Sequence[Statement],
    *,
    threads: tuple[int, ...],
    counts: Sequence[str] = (),
    helpers: Sequence[Helper] = (),
    bounds: int = 0,
    aligned: Expression | None = None,
    shared: Expression | None = None,
) -> EmittedKernel:
    """Put the `__global__` function around a body and write its launch.

    `setup` are host statements that define `blocks`, `threads` and the `counts`, which the kernel takes as arguments.
    With `bounds`, the compiler is told that no block has more threads. With `aligned`, a condition on the host, the
    kernel is a template of whether it holds. With `shared`, its bytes, shared memory is allocated at the launch.
    """
    body = tuple(block.body)
    sizes = [name for name in mentioned(kernel.size_names, body) if name not in counts]
    free = [name for name in sizes if kernel.inputs and schedule.alike and not isinstance(name, NumberName)]
    sizes = [name for name in sizes if name not in free]
    inputs = [buffer for buffer in kernel.inputs if buffer not in kernel.outputs]
    parameters = (
        *(Parameter(f"const {C_TYPES[buffer.dtype]}* __restrict__", Name(buffer.name)) for buffer in inputs),
        *(Parameter(f"{C_TYPES[buffer.dtype]}* __restrict__", Name(buffer.name)) for buffer in kernel.outputs),
        *(_declared(name, kernel) for name in (*counts, *sizes)),
    )
    limit = f"__launch_bounds__({bounds}) " if bounds else ""
    template = ("bool aligned",) if aligned else ()
    function = Function(f"__global__ void {limit}", Name(kernel.name), parameters, body, template)
    bytes_ = [constant("shared_bytes", shared)] if shared else []
    arguments = (*map(_pointer, (*inputs, *kernel.outputs)), *map(Name, (*counts, *sizes)))
    host = HostLaunch((*setup, *bytes_), kernel.name, arguments, aligned, bool(shared))
    used = frozenset((*free, *mentioned(kernel.size_names, (host.setup, arguments, aligned))))
    return EmittedKernel(kernel, schedule, tuple(block.functions), tuple(helpers), function, host, used, threads)


def _declared(name: str, kernel: Kernel) -> Parameter:
    """A size or number as a parameter of a kernel."""
    if not isinstance(name, NumberName):
        return Parameter(INDEX, Name(name))
    is_double = any(buffer.dtype == "float64" for buffer in (*kernel.inputs, *kernel.outputs))
    return Parameter("double" if is_double else "float", Name(name))


def mentioned(names: Sequence[str], tree: object) -> list[str]:
    """Those names that stand in a tree."""
    found = names_of(tree)
    return [name for name in names if name in found]


def _pointer(buffer: Buffer) -> Expression:
    """A buffer's data pointer on the host."""
    kind, tensor = C_TYPES[buffer.dtype], Name(buffer.name)
    if buffer.dtype in ("float16", "bfloat16"):
        constant = "const " if buffer.role in ("argument", "state") else ""
        return apply(f"reinterpret_cast<{constant}{kind}*>", Method(tensor, "data_ptr"))
    return Method(tensor, f"data_ptr<{kind}>")


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


def constant(name: str, value: Some) -> Declare:
    """A host statement: `const int name = value;`."""
    return Declare(INDEX, ((Name(name), code(value)),))


def sides(name: str, *values: Some) -> Construct:
    """A host statement: `const dim3 name(values);`."""
    return Construct("dim3", Name(name), tuple(map(code, values)))


def count_of(block: Block, axes: Sequence[Variable]) -> Expression:
    """The number of points of some axes."""
    return block.index(product(axis.extent for axis in axes))


def linear_setup(
    block: Block, axes: Sequence[Variable], threads: int, blocks: Expression | None = None, *, stride: bool = False
) -> Body:
    """The setup of a one-dimensional launch over all points of the axes.

    There is a thread for each, unless `blocks` gives another number; with `stride`, there are at most as many blocks as
    the device runs at once.
    """
    wanted = blocks or (Name("total") + "threads" - 1) / "threads"
    return (
        constant("total", count_of(block, axes)),
        constant("threads", threads),
        *(bounded_blocks(wanted, threads) if stride else (constant("blocks", wanted),)),
    )


def bounded_blocks(wanted: Some, threads: int) -> Body:
    """The statements that set the number of blocks of a loop that goes on from any number of them."""
    many = Name("at::cuda::getCurrentDeviceProperties()->multiProcessorCount")
    least = Declare(INDEX, ((Name("blocks"), apply("std::min", wanted, "resident")),), note="no more than run at once")
    return constant("resident", code(MOST_THREADS // threads) * many), least


def allocation(buffer: Buffer, first: str, dtype: str) -> Declare:
    """The statement that makes a tensor, with the options of the tensor `first`, which has the given type."""
    options: Expression = Method(Name(first), "options")
    if buffer.dtype != dtype:
        options = Method(options, "dtype", (Name(TORCH_TYPES[buffer.dtype]),))
    made = Apply(f"torch::{'zeros' if buffer.zeroed else 'empty'}", (shape_of(buffer.shape), options))
    return Declare("auto", ((Name(buffer.name), made),), "")


def line_of(statement: Statement) -> str:
    """A host statement on its line."""
    return text_of(statement).rstrip("\n")


def shape_of(shape: Sequence[Index]) -> Braces:
    """A shape as C++ writes it."""
    return Braces(tuple(map(Printer().index, shape)))
