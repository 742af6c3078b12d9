"""Inside the sandbox, on a real device: the replaced `load_inline`, and what a candidate dispatched and launched."""

import ctypes
import os
import types
from collections.abc import Callable
from typing import Any

from musadata.verifier.backends.emulated import emulated_hook as hook
from musadata.verifier.compilation.sources import CandidateSources

DEVICE = "cuda"
_POISON_BYTES = (64 << 20, *[2 << 20] * 8)


class _Loaded:
    """The candidate's libraries in this process."""

    def __init__(self) -> None:
        self.libraries: list[ctypes.CDLL] = []
        self.modules: list[types.ModuleType] = []  # kept: registered operators live as long as these
        self.pinned = 0  # bytes of pinned memory that PyTorch has handed out, ever
        self.pinned_before = 0  # that were handed out when last asked
        self.overruns: Any = None  # an OverrunWatch, once there is a context


_loaded = _Loaded()


def prepare() -> None:
    """Import everything and load the bridge, but do not touch CUDA: a fork would not survive it."""
    import torch.utils.cpp_extension  # noqa: F401

    from musadata.verifier.backends.torch_abi import load_bridge

    load_bridge()


def activate(compile: Callable[[CandidateSources], str], fault_fd: int = -1) -> None:
    """Make `load_inline` and `load` ask `compile` for the artifact."""
    look_for_device()
    replace_loaders(compile)


def replace_loaders(compile: Callable[[CandidateSources], str]) -> None:
    """The part of `activate` that is the same for every device whose kernels run natively."""
    import torch.utils.cpp_extension as cpp_extension

    def load(sources: Any, is_python_module: bool) -> types.ModuleType | None:
        from musadata.verifier.backends.torch_abi import load_module

        try:
            path = str(compile(sources))
        except Exception as error:
            raise RuntimeError(f"Error building extension '{sources.name}': {error}") from error
        module = load_module(path, sources.name)
        library = ctypes.CDLL(path)
        library.musadata_take_launches.restype = ctypes.c_char_p
        library.musadata_take_host_bytes.restype = ctypes.c_size_t
        _loaded.libraries.append(library)
        _loaded.modules.append(module)
        return module if is_python_module else None

    hook._load_sources = lambda sources: load(sources, sources.is_python_module)
    cpp_extension.load_inline = hook._load_inline
    cpp_extension.load = hook._load


def look_for_device() -> None:
    """Ask the driver itself whether there is a device: NVML, asked before a fork, may know nothing in a cell."""
    import torch

    os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    torch.cuda._device_count_nvml = lambda: -1
    torch.cuda.init()


def configure(*, order: str = "forward", seed: int = 0, poison: int = 0xFF, null_kernels: bool = False) -> None:
    """How the next call runs. The order of threads is the device's own; fresh memory holds `poison` if it can."""
    import torch

    set_null_kernels(null_kernels)
    # What the allocator hands out next are these blocks: it keeps what is freed and splits it.
    blocks = [torch.full((size,), poison, dtype=torch.uint8, device="cuda") for size in _POISON_BYTES]
    torch.cuda.synchronize()
    del blocks


def guard_memory(poison: int) -> None:
    """Have writes outside of all allocations reported by the next `take_records`."""
    from musadata.verifier.backends.cuda.overruns import OverrunWatch

    _loaded.overruns = _loaded.overruns or OverrunWatch()
    _loaded.overruns.begin(poison)


def begin_call() -> None:
    """Nothing to do: a device keeps no account of what waits for what; see `crosscheck`."""


def end_call() -> None:
    """Nothing to do; see `begin_call`."""


def keep_memory() -> None:
    """On a device nothing is kept: what a program counts there is seen when it is timed, and every call checked."""


def kept_memory_changed() -> bool:
    """Never known here; see `keep_memory`."""
    return False


def set_null_kernels(null_kernels: bool) -> None:
    """Whether the candidate's launches are left out from now on."""
    for library in _loaded.libraries:
        library.musadata_set_null_kernels(int(null_kernels))


def take_records() -> dict[str, Any]:
    """What happened since the last call, in the emulator's form."""
    launches = []
    for library in _loaded.libraries:
        for line in library.musadata_take_launches().decode("utf-8", "replace").splitlines():
            name, *fields = line.split("\t")
            gx, gy, gz, bx, by, bz, shared_bytes, error, count = map(int, fields)
            launches.append(
                {
                    "name": name,
                    "grid": [gx, gy, gz],
                    "block": [bx, by, bz],
                    "shared_bytes": shared_bytes,
                    "error": error,
                    "count": count,
                }
            )
    host_bytes = sum(library.musadata_take_host_bytes() for library in _loaded.libraries)
    # Operators are seen by the caller's DispatchWatch.
    overruns = _loaded.overruns.end() if _loaded.overruns else []
    reports = [{"kind": "out_of_bounds", "message": message} for message in overruns]
    records: dict[str, Any] = {"operators": {}, "kernels": launches, "faults": [], "reports": reports}
    return {**records, "host_bytes": host_bytes, "pinned_bytes": _take_pinned_bytes()}


def _take_pinned_bytes() -> int:
    """Bytes of memory that kernels and the host share which PyTorch has handed out since the last call, or before it.

    Not their sum: what was freed counts as handed out until the next is asked for.
    """
    import torch

    stats = torch.cuda.host_memory_stats()
    handed_out, before = stats.get("active_bytes.allocated", 0), _loaded.pinned_before
    new, _loaded.pinned = handed_out - _loaded.pinned, handed_out
    _loaded.pinned_before = stats.get("active_bytes.current", 0)
    return max(new, before)
