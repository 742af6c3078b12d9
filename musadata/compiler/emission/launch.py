"""What an emitted kernel is: its function, and how the host launches it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    Jump,
    Launch,
    Method,
    Name,
    Parameter,
    Some,
    Statement,
    apply,
    code,
    names_of,
)
from musadata.compiler.ir.index_formulas import Index, Variable, product
from musadata.compiler.ir.printing import widened
from musadata.compiler.ir.scalar import Buffer
from musadata.compiler.ir.schedule import Schedule
from musadata.compiler.lowering.fusion import Kernel

_SCALAR_TYPES = ("Bool", "UInt8", "Int8", "Int16", "Int32", "Int64", "Float16", "BFloat16", "Float32", "Float64")
MOST_THREADS = 2048  # that a multiprocessor runs at once
TORCH_TYPES = {name.lower(): f"torch::k{name}" for name in _SCALAR_TYPES}
Helper = str | Function  # a device function: from a template, or of the kernel's own


class NumberName(str):
    """The name of a floating-point number that the host passes; other names are those of sizes."""


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
    host: Launch
    sizes: frozenset[str]
    threads: tuple[int, ...]
    wide: bool = False
    is_shared: bool = False

    @property
    def text(self) -> str:
        """The `__global__` function."""
        return self.function.text

    @property
    def source(self) -> str:
        """Its device functions, and the `__global__` function."""
        return "\n".join(map(printed, (*self.helpers, self.function)))

    def with_wide_indices(self) -> "EmittedKernel":
        """The same, with integers of 64 bits for positions."""
        return replace(self, helpers=widened(self.helpers), function=widened(self.function), wide=True)


def printed(part: Helper) -> str:
    """The text of a function, which ends with one line break."""
    return f"{(part if isinstance(part, str) else part.text).rstrip()}\n"


def finish(
    kernel: Kernel,
    schedule: Schedule,
    block: Block,
    setup: Sequence[Statement],
    *,
    threads: tuple[int, ...],
    counts: Sequence[str] = (),
    helpers: Sequence[Helper] = (),
    bounds: int | tuple[int, int] = 0,
    aligned: Expression | None = None,
    shared: Expression | None = None,
) -> EmittedKernel:
    """Put the `__global__` function around a body and write its launch.

    `setup` are host statements that define `blocks`, `threads` and the `counts`, which the kernel takes as arguments.
    With `bounds`, the compiler is told that no block has more threads, and how many blocks registers are for. With
    `aligned`, a condition on the host, the kernel is a template of whether it holds. With `shared`, its bytes, shared
    memory is allocated at the launch.
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
    limit = f"__launch_bounds__({str(bounds).strip('()')}) " if bounds else ""
    template = ("bool aligned",) if aligned else ()
    function = Function(f"__global__ void {limit}", Name(kernel.name), parameters, body, template)
    bytes_ = [constant("shared_bytes", shared)] if shared else []
    arguments = (*map(_pointer, (*inputs, *kernel.outputs)), *map(Name, (*counts, *sizes)))
    host = Launch((*setup, *bytes_), kernel.name, arguments, aligned, bool(shared))
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


def returning(names: Sequence[str]) -> tuple[str, Jump]:
    """What a host function returns: its type, and the statement."""
    if len(names) == 1:
        return "Tensor", Jump("return", Name(names[0]))
    return f"std::tuple<{', '.join(['Tensor'] * len(names))}>", Jump("return", apply("std::make_tuple", *names))


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


def allocation(buffer: Buffer, first: Expression, dtype: str) -> Declare:
    """The statement that makes a tensor, with the options of the tensor `first`, which has the given type."""
    options: Expression = Method(first, "options")
    if buffer.dtype != dtype:
        options = Method(options, "dtype", (Name(TORCH_TYPES[buffer.dtype]),))
    made = Apply(f"torch::{'zeros' if buffer.zeroed else 'empty'}", (shape_of(buffer.shape), options))
    return Declare("auto", ((Name(buffer.name), made),), "")


def shape_of(shape: Sequence[Index]) -> Braces:
    """A shape as C++ writes it."""
    return Braces(tuple(map(Printer().index, shape)))
