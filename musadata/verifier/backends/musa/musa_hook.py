"""Inside the sandbox, on a Moore Threads GPU: what `musadata.verifier.backends.cuda.cuda_hook` is on NVIDIA's."""

from collections.abc import Callable

from musadata.verifier.backends.cuda.cuda_hook import (
    begin_call,
    end_call,
    keep_memory,
    kept_memory_changed,
    replace_loaders,
    set_null_kernels,
    take_records,
)
from musadata.verifier.compilation.sources import CandidateSources

__all__ = [
    "DEVICE",
    "activate",
    "begin_call",
    "configure",
    "end_call",
    "guard_memory",
    "keep_memory",
    "kept_memory_changed",
    "prepare",
    "take_records",
]

DEVICE = "musa"
_POISON_BYTES = (64 << 20, *[2 << 20] * 8)


def guard_memory(poison: int) -> None:
    """Not done here: nobody has tried what this device's allocator tells of itself."""


def prepare() -> None:
    """Import everything and load the bridge, but do not touch the device: a fork would not survive it."""
    import torch_musa  # noqa: F401 - makes torch.musa and the device

    from musadata.verifier.backends.torch_abi import load_bridge

    load_bridge()


def activate(compile: Callable[[CandidateSources], str], fault_fd: int = -1) -> None:
    """Make `load_inline` and `load` ask `compile` for the artifact."""
    import torch

    getattr(torch, DEVICE).init()
    replace_loaders(compile)


def configure(*, order: str = "forward", seed: int = 0, poison: int = 0xFF, null_kernels: bool = False) -> None:
    """How the next call runs. The order of threads is the device's own; fresh memory holds `poison` if it can."""
    import torch

    set_null_kernels(null_kernels)
    blocks = [torch.full((size,), poison, dtype=torch.uint8, device=DEVICE) for size in _POISON_BYTES]
    getattr(torch, DEVICE).synchronize()
    del blocks
