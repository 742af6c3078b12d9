"""Kernels without inner loops: every element on its own."""

from collections.abc import Sequence

from musadata.teacher.compiler.emission.cpp import C_TYPES
from musadata.teacher.compiler.emission.launch import (
    EmittedKernel,
    NumberName,
    count_text,
    finish,
    linear_setup,
    mentioned,
)
from musadata.teacher.compiler.emission.statements import INDEX, Block, decode, text_length
from musadata.teacher.compiler.ir.index_formulas import Index, Variable
from musadata.teacher.compiler.ir.scalar import Added, Load, Named
from musadata.teacher.compiler.lowering.fusion import Kernel, Store

THREADS = 256
LONGEST_STORE = 88  # value and position together; longer ones go on two lines


def names_in(kernel: Kernel, size_names: Sequence[str]) -> list[str]:
    """Names that a kernel's own variables must not take."""
    buffers = [b.name for b in (*kernel.inputs, *kernel.outputs)]
    return [*buffers, *(v.name for v in kernel.axes), *size_names]


def threads_for(total: int) -> int:
    """Threads per block for a number of elements: whole warps, up to 256 threads."""
    return next((t for t in (32, 64, 128) if total <= t), THREADS)


def emit_elements(kernel: Kernel, size_names: Sequence[str], total: int, *, stride: bool = False) -> EmittedKernel:
    """One thread per element; with `stride`, a bounded grid whose threads stride over the elements."""
    block = _new_block(kernel, size_names)
    block.write_thread_loop("i", stride, lambda: _element(kernel, block))
    setup = linear_setup(block, kernel.axes, threads_for(total), stride=stride)
    schedule = "grid-stride loop" if stride else "one thread per element"
    return finish(kernel, schedule, block, setup, size_names, counts=("total",))


def _new_block(kernel: Kernel, size_names: Sequence[str]) -> Block:
    block = Block([*names_in(kernel, size_names), "i", "step", "total"])
    block.printer.flat = (kernel.axes, "i")
    return block


def _element(kernel: Kernel, block: Block) -> None:
    """Everything that one thread does for the element at flat position i."""
    decode(block, "i", kernel.axes, decoded(kernel, block))
    for store in kernel.stores:
        write_store(block, store)


def decoded(kernel: Kernel, block: Block) -> frozenset[Variable]:
    """Axes that need a variable of their own: those that occur in something else than a flat position."""
    if len(kernel.axes) == 1 and kernel.axes[0].name == "i":
        return frozenset()
    formulas: list[Index] = []
    for store in kernel.stores:
        for node in store.value.walk():
            if not (isinstance(node, Load) and block.printer.is_flat(node.buffer, node.index)):
                formulas += node.formulas
        if not block.printer.is_flat(store.buffer, store.index):
            formulas += store.index
    return frozenset[Variable]().union(*(formula.variables for formula in formulas))


def write_store(block: Block, store: Store) -> None:
    """Write the element of a store at the current point."""
    if isinstance(store.value, Added):
        text = block.value(store.value.value)
        element = f"&{store.buffer.name}[{block.printer.offset(store.buffer, store.value.index)}]"
        if store.buffer.dtype == "int64":  # in two's complement the sum is the same
            kind = "unsigned long long"
            element, text = f"reinterpret_cast<{kind}*>({element})", f"static_cast<{kind}>({text})"
        block.write(f"atomicAdd({element}, {text});")
        return
    text = block.held(store.value) if isinstance(store.value, Named) else block.value(store.value)
    place = block.printer.offset(store.buffer, store.index)
    if text_length(text) + text_length(place) > LONGEST_STORE:
        kind = C_TYPES[store.value.dtype]
        name = block.fresh("result")
        block.write(f"const {kind} {name} = {text};")
        text = name
    block.write(f"{store.buffer.name}[{place}] = {stored(text, store.buffer.dtype)};")


def stored(text: str, dtype: str) -> str:
    """The conversion from compute type to the buffer's type, where it is not implicit."""
    return {"float16": f"__float2half({text})", "bfloat16": f"__float2bfloat16({text})"}.get(dtype, text)


def emit_rows(kernel: Kernel, size_names: Sequence[str], total: int) -> EmittedKernel:
    """A two-dimensional grid: threads along x for the last axis, along y for all others together.

    Blocks go the other way round, since the rows may be many and only a grid's x has more than 65,535 blocks.
    """
    block = Block([*names_in(kernel, size_names), "rows", "outer"])
    *outer, last = kernel.axes
    block.write(f"const {INDEX} {last.name} = blockIdx.y * blockDim.x + threadIdx.x;")
    row = outer[0].name if len(outer) == 1 else "outer"
    block.write(f"const {INDEX} {row} = blockIdx.x * blockDim.y + threadIdx.y;")
    block.write(f"if ({row} >= outer_size || {last.name} >= {block.index(last.extent)}) return;")
    if len(outer) > 1:
        decode(block, "outer", tuple(outer), frozenset(outer))
    for store in kernel.stores:
        write_store(block, store)
    setup = (
        f"const int outer_size = {count_text(block, outer)};",
        "const dim3 threads(32, 8);",
        f"const int width_blocks = ({block.printer.index(last.extent, 70)} + threads.x - 1) / threads.x;",
        "const dim3 blocks((outer_size + threads.y - 1) / threads.y, width_blocks);",
    )
    return finish(kernel, "two-dimensional grid", block, setup, size_names, counts=("outer_size",))


def can_vectorise(kernel: Kernel) -> bool:
    """Everything is float32 and read either at the element's own place or at one fixed place."""
    if len(kernel.stores) != 1 or kernel.reductions:
        return False
    (store,) = kernel.stores
    is_flat = _new_block(kernel, ()).printer.is_flat
    if store.buffer.dtype != "float32" or not is_flat(store.buffer, store.index):
        return False
    flat = [load for load in store.value.loads if is_flat(load.buffer, load.index)]
    others = [load for load in store.value.loads if load not in flat]
    computed = [f for node in store.value.walk() if not isinstance(node, Load) for f in node.formulas]
    return (
        bool(flat)
        and all(load.buffer.dtype == "float32" for load in flat)
        and not any(f.variables for f in [*computed, *(f for load in others for f in load.index)])
        and len({load.buffer for load in others}) == len(others)
    )


def emit_vectorised(kernel: Kernel, size_names: Sequence[str], total: int) -> EmittedKernel:
    """Four elements per thread, moved as one float4; the tail element by element."""
    block = _new_block(kernel, size_names)
    store = kernel.stores[0]
    reads = [load for load in store.value.loads if block.printer.is_flat(load.buffer, load.index)]
    fixed = [load for load in store.value.loads if load not in reads]
    function, source, numbers = _element_function(kernel, size_names, (*reads, *fixed), block.functions)
    for load in fixed:
        block.write(f"const {C_TYPES[load.dtype]} {load.buffer.name}_value = {block.printer.load(load)};")
    fixed_names = [f"{load.buffer.name}_value" for load in fixed]
    names = list(dict.fromkeys(load.buffer.name for load in reads))
    out = store.buffer.name
    block.write(f"const {INDEX} first = (blockIdx.x * blockDim.x + threadIdx.x) * 4;")
    passed = dict.fromkeys(load.buffer.name for load in reads if load.buffer.role != "temporary")
    aligned = [f"reinterpret_cast<size_t>({name}) % 16 == 0" for name in passed]  # a slice may start anywhere
    with block.scope(f"if ({' && '.join([*aligned, 'first + 3 < total'])})"):
        for name in names:
            block.write(f"const float4 {name}4 = *reinterpret_cast<const float4*>({name} + first);")
        block.write("float4 result;")
        for part in "xyzw":
            arguments = ", ".join([*(f"{name}4.{part}" for name in names), *fixed_names, *numbers])
            block.write(f"result.{part} = {function}({arguments});")
        block.write(f"*reinterpret_cast<float4*>({out} + first) = result;")
    with block.scope("else"), block.scope(f"for ({INDEX} i = first; i < total && i < first + 4; ++i)"):
        arguments = ", ".join([*(f"{name}[i]" for name in names), *fixed_names, *numbers])
        block.write(f"{out}[i] = {function}({arguments});")
    setup = linear_setup(block, kernel.axes, threads_for(-(-total // 4)), "(total + 4 * threads - 1) / (4 * threads)")
    return finish(kernel, "float4 vectorised", block, setup, size_names, counts=("total",), helpers=source)


def _element_function(
    kernel: Kernel, size_names: Sequence[str], loads: Sequence[Load], functions: dict[tuple[str, str], None]
) -> tuple[str, str, list[NumberName]]:
    """A device function from the loaded values of one element to its result, and the numbers that it takes as well."""
    store = kernel.stores[0]
    name = f"{kernel.name.removesuffix('_kernel')}_element"
    block = Block([*size_names, name])
    parameters: dict[str, str] = {}
    for load in loads:
        parameter = parameters.setdefault(load.buffer.name, block.fresh(load.buffer.name))
        block.name(load, parameter)
    text = block.value(store.value)
    block.write(f"return {text};")
    functions.update(block.functions)
    numbers = [name for name in mentioned(size_names, "\n".join(block.lines)) if isinstance(name, NumberName)]
    listed = ", ".join(f"float {parameter}" for parameter in (*parameters.values(), *numbers))
    source = f"__device__ __forceinline__ float {name}({listed}) {{\n" + "\n".join(block.lines) + "\n}\n\n"
    return name, source, numbers
