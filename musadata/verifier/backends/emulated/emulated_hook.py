"""Inside the process in which a candidate runs: the device, the replaced `load_inline`, and the records of both."""

import ctypes
from collections.abc import Mapping
from functools import cache

from musadata.verifier.backends.device_records import Records
from musadata.verifier.backends.emulated.runtime import Runtime
from musadata.verifier.backends.loaders import RequestLibrary, replace_loaders

DEVICE = "cuda"  # what PyTorch calls it
HAS_DRIVER = False
ORDERS = ("forward", "reverse", "random")
CHECKS = ("off", "brief", "full")


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
    take_records()


_SET_DUMPABLE = 4


def _hide_memory() -> None:
    """Take /proc/self/mem away: a program could read the device's memory there without a counted copy."""
    ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def configure(
    *,
    order: str = "forward",
    seed: int = 0,
    poison: int = 0xFF,
    null_kernels: bool = False,
    check: str = "off",
    settled: bool = False,
    sampled: bool = False,
) -> None:
    """How kernels run from now on; also forgets sticky errors.

    Args:
        order: in which order the threads of a block, and the blocks, run: forward, reverse or random.
        seed: of the random order.
        poison: byte that fresh memory is filled with; -1 leaves it as the system gives it.
        null_kernels: kernels do nothing, but are checked and recorded.
        check: brief looks at the first accesses of each launch, and reports races that change a value and accesses out
            of bounds; full looks at all accesses, and reports everything that looks like a mistake.
        sampled: only the first, the middle and the last block along each axis of a grid run.
        settled: the program has been called like this before: report static variables that its host code changes.
    """
    runtime = prepare()
    kernels = 2 if sampled else int(null_kernels)
    runtime.configure(ORDERS.index(order), seed, poison, kernels, CHECKS.index(check), settled)
    runtime.reset_errors()


def begin_call() -> None:
    """Begin one call of a forward, whose inputs are queued on PyTorch's current stream; it lasts until `end_call`."""
    prepare().order.begin_call()


def end_call() -> None:
    """End the call, and report work that the current stream does not wait for."""
    prepare().order.end_call()


def take_records() -> Records:
    """What happened since the last call, or since `activate`; starts afresh."""
    return prepare().take_records()


def load_counter() -> None:
    """Have accesses counted and not checked in this process; before a candidate is loaded."""
    prepare().load_counter()


def count_accesses(most: int, windows: Mapping[str, int]) -> None:
    """Count what kernels do from now on, as far as `most` accesses of threads.

    `windows`: by a kernel's name, the bytes of its widest vector type, whose components are one access.
    """
    prepare().count_accesses(most, windows)


def take_counts() -> str:
    """What was counted, a launch after the other; see `musadata.verifier.protocol.access_counts`."""
    return prepare().take_counts()


def guard_memory(poison: int) -> None:
    """Nothing to do: the accesses themselves are checked."""


def poison_memory() -> None:
    """Nothing to do: all new memory is; see `configure`."""


def snapshot_memory() -> None:
    """Remember what the device's memory and the candidate's own variables hold."""
    prepare().snapshot_memory()


def changed_memory() -> tuple[str, str]:
    """What of the remembered memory, if it is still there, holds something else now: a variable's name or a place, and
    its bytes; ("", "") if nothing does."""
    return prepare().changed_memory()
