"""Inside the process in which a candidate runs: the device, the replaced `load_inline`, and the records of both."""

import ctypes
from functools import cache
from typing import Any

from musadata.verifier.backends.emulated.runtime import CHECKS, Runtime
from musadata.verifier.backends.loaders import RequestLibrary, replace_loaders

DEVICE = "cuda"  # what PyTorch calls it
HAS_DRIVER = False
__all__ = ["CHECKS", "DEVICE", "HAS_DRIVER", "activate", "guard_memory", "poison_memory", "prepare"]


@cache
def prepare() -> Runtime:
    """Do what takes long and is the same for all candidates: load the libraries and the device, patch `torch.cuda`.

    For the parent of forks; `activate` calls it as well. Imports torch. Idempotent.

    Raises:
        MusadataError: no compiler, or it cannot build the libraries.
    """
    import torch.utils.cpp_extension  # noqa: F401 - slow to import, so here and not in every child

    from musadata.verifier.backends.emulated.emulated_toolchain import build_libraries
    from musadata.verifier.backends.emulated.torch_cuda import patch_cpp_extension, patch_torch
    from musadata.verifier.backends.torch_abi.bridge import load_bridge

    runtime = Runtime(build_libraries())
    load_bridge()
    patch_torch(runtime)
    patch_cpp_extension()
    return runtime


def activate(compile: RequestLibrary, fault_fd: int = -1) -> None:
    """Make this process one in which candidates run; cheap after `prepare`.

    Args:
        compile: gives the path of the library of some sources; see `replace_loaders`.
        fault_fd: where the last message goes if the process dies of a signal in C++ host code: one line, tab-separated
            kind, kernel, position, text. -1 for nowhere.
    """
    runtime = prepare()
    _hide_memory()
    runtime.set_fault_descriptor(fault_fd)
    replace_loaders(compile)
    runtime.reset_errors()
    runtime.take_records()


_SET_DUMPABLE = 4


def _hide_memory() -> None:
    """Take /proc/self/mem away: a program could read the device's memory there without a counted copy."""
    ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def guard_memory(poison: int) -> None:
    """Nothing to do: the accesses themselves are checked."""


def poison_memory() -> None:
    """Nothing to do: all new memory is; see `Runtime.configure`."""


def __getattr__(name: str) -> Any:
    """Everything else that a backend's module does, such as `configure` and `take_records`, the runtime does."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(prepare(), name)
