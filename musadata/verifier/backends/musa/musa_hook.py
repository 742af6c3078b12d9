"""Inside the sandbox, on a Moore Threads GPU: what `musadata.verifier.backends.cuda.cuda_hook` is on NVIDIA's."""

from musadata.verifier.backends.device_records import Records
from musadata.verifier.backends.loaders import Compile
from musadata.verifier.backends.native.native_hook import (
    activate_native,
    begin_call,
    configure_native,
    end_call,
    memory_changed,
    snapshot_memory,
    take_native_records,
)

__all__ = [
    "DEVICE",
    "activate",
    "begin_call",
    "configure",
    "end_call",
    "guard_memory",
    "memory_changed",
    "prepare",
    "snapshot_memory",
    "take_records",
]

DEVICE = "musa"


def guard_memory(poison: int) -> None:
    """Not done here: it is not known what this device's allocator reports."""


def prepare() -> None:
    """Import everything and load the bridge, but do not touch the device: a fork would not survive it."""
    import torch_musa  # noqa: F401 - makes torch.musa and the device

    from musadata.verifier.backends.torch_abi import load_bridge

    load_bridge()


def activate(compile: Compile, fault_fd: int = -1) -> None:
    """Make `load_inline` and `load` ask `compile` for the library."""
    import torch

    getattr(torch, DEVICE).init()
    activate_native(compile)


def configure(*, order: str = "forward", seed: int = 0, poison: int = 0xFF, null_kernels: bool = False) -> None:
    """How the next call runs. The order of threads is the device's own; fresh memory holds `poison` if it can."""
    configure_native(DEVICE, poison, null_kernels)


def take_records() -> Records:
    """What happened since the last call."""
    return take_native_records()
