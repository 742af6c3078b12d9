"""Inside the process in which a candidate runs: the device, the replaced `load_inline`, and what happened."""

import ctypes
import types
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

from musadata.verifier.backends.emulated.runtime import Fault, Launch, Runtime
from musadata.verifier.compilation.sources import CandidateSources, from_load, from_load_inline

Compile = Callable[[CandidateSources], "str | Path"]

DEVICE = "cuda"  # what PyTorch calls it
ORDERS = ("forward", "reverse", "random")
CHECKS = ("off", "brief", "full")


class Records(TypedDict):
    """What a candidate did since the last time it was asked.

    operators: calls by aten operator, "aten.mul.Tensor", sorted by name; on cuda tensors only.
    kernels: distinct launches in order, those of null kernels and refused ones (error != 0) included.
    faults: what kernels did wrong, each also raised as a RuntimeError at its launch.
    reports: what the checks on accesses found; see `configure`.
    host_bytes: copied from the device to the host by the candidate's C++, or in memory that both share.
    peak_bytes: device memory at its highest.
    """

    operators: dict[str, int]
    kernels: list[dict[str, Any]]
    faults: list[dict[str, Any]]
    reports: list[dict[str, Any]]
    host_bytes: int
    peak_bytes: int


@dataclass
class _State:
    compile: Compile | None = None
    loaded: int = 0
    modules: list[types.ModuleType] = field(default_factory=list)  # what they register lives as long as they do


_state = _State()


@cache
def prepare() -> Runtime:
    """Everything that is dear and the same for all candidates: shared libraries, the device, torch.cuda patched.

    For the parent of forks; also called by `activate` where nobody did. Imports torch if need be. Idempotent.

    Raises:
        MusadataError: no compiler, or it cannot build the libraries.
    """
    import torch.utils.cpp_extension  # noqa: F401 - slow to import, so here and not in every child

    from musadata.verifier.backends.emulated.emulated_toolchain import build_libraries
    from musadata.verifier.backends.emulated.torch_cuda import patch_cpp_extension, patch_torch
    from musadata.verifier.backends.torch_abi import load_bridge

    runtime = Runtime(build_libraries())
    load_bridge()
    patch_torch(runtime)
    patch_cpp_extension()
    return runtime


def activate(compile: Compile, fault_fd: int = -1) -> None:
    """Make this process one in which candidates run; cheap after `prepare`.

    Args:
        compile: gives the path of the library of some sources; what it raises, `load_inline`
            raises as the RuntimeError that torch has for it ("Error building extension ...").
        fault_fd: where the last message goes if the process dies of a signal in C++ host code: one line, tab-separated
            kind, kernel, position, text. -1 for nowhere.
    """
    runtime = prepare()
    _hide_memory()
    runtime.set_fault_descriptor(fault_fd)
    _state.compile = compile
    _replace_loaders()
    runtime.reset_errors()
    take_records()


_SET_DUMPABLE = 4


def _hide_memory() -> None:
    """Take /proc/self/mem away: what is on the device could be read there, without a copy that anybody counts."""
    ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def configure(
    *,
    order: str = "forward",
    seed: int = 0,
    poison: int = 0xFF,
    null_kernels: bool = False,
    check: str = "off",
    settled: bool = False,
) -> None:
    """How kernels run from now on; also forgets sticky errors.

    Args:
        order: in which order the threads of a block, and the blocks, run: forward, reverse or random.
        seed: of the random order.
        poison: byte that fresh memory is filled with; -1 leaves it as the system gives it.
        null_kernels: kernels do nothing, but are checked and recorded.
        check: brief looks at the first accesses of each launch, and reports races that change a value and accesses out
            of bounds or misaligned; full looks at all accesses, and reports everything that looks like a mistake.
        settled: the program has been called like this before: report static variables that its host code changes.
    """
    runtime = prepare()
    runtime.configure(ORDERS.index(order), seed, poison, null_kernels, CHECKS.index(check), settled)
    runtime.reset_errors()


def begin_call() -> None:
    """What runs until `end_call` is one call of a forward, whose inputs are queued on PyTorch's current stream."""
    prepare().order.begin_call()


def end_call() -> None:
    """Report what the current stream does not wait for."""
    prepare().order.end_call()


def take_records() -> Records:
    """What happened since the last call, or since `activate`; starts afresh."""
    runtime = prepare()
    records = Records(
        operators=runtime.take_operators(),
        kernels=[_launch(launch) for launch in runtime.take_launches()],
        faults=[_fault(fault) for fault in runtime.take_faults()],
        reports=[_fault(report) for report in runtime.take_reports()],
        host_bytes=runtime.take_host_bytes(),
        peak_bytes=runtime.peak_bytes(),
    )
    runtime.reset_peak()
    return records


def guard_memory(poison: int) -> None:
    """Nothing to do: accesses themselves are looked at."""


def keep_memory() -> None:
    """Remember what the device's memory and the candidate's own variables hold."""
    prepare().keep_memory()


def kept_memory_changed() -> bool:
    """Whether any of it that is still there holds something else now."""
    return prepare().kept_memory_changed()


def _launch(launch: Launch) -> dict[str, Any]:
    return {**asdict(launch), "grid": list(launch.grid), "block": list(launch.block)}


def _fault(fault: Fault) -> dict[str, Any]:
    return asdict(fault)


def _replace_loaders() -> None:
    import torch.utils.cpp_extension as cpp_extension

    cpp_extension.load_inline = _load_inline
    cpp_extension.load = _load


def _load_inline(
    name: str,
    cpp_sources: Any = None,
    cuda_sources: Any = None,
    sycl_sources: Any = None,
    functions: Any = None,
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    *unused: Any,
    is_python_module: bool = True,
    **options: Any,
) -> types.ModuleType | None:
    """`torch.utils.cpp_extension.load_inline`, executed on the CPU."""
    if unused:
        raise TypeError("load_inline: give the arguments after extra_cuda_cflags by name")
    return _load_sources(
        from_load_inline(name, cpp_sources, cuda_sources, functions, extra_cflags, extra_cuda_cflags, is_python_module)
    )


def _load(
    name: str,
    sources: Any,
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    *unused: Any,
    is_python_module: bool = True,
    **options: Any,
) -> types.ModuleType | None:
    """`torch.utils.cpp_extension.load`, executed on the CPU."""
    if unused:
        raise TypeError("load: give the arguments after extra_cuda_cflags by name")
    return _load_sources(from_load(name, sources, extra_cflags, extra_cuda_cflags, is_python_module))


def _load_sources(sources: CandidateSources) -> types.ModuleType | None:
    from musadata.verifier.backends.torch_abi import load_module

    if _state.compile is None:
        raise RuntimeError("the emulator is not active in this process")
    try:
        path = _state.compile(sources)
    except Exception as error:
        raise RuntimeError(f"Error building extension '{sources.name}': {error}") from error
    module = load_module(path, sources.name)
    _state.loaded += 1
    _state.modules.append(module)
    return module if sources.is_python_module else None
