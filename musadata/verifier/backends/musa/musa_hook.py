"""Inside the sandbox, on a Moore Threads GPU: what `musadata.verifier.backends.cuda.cuda_hook` is on NVIDIA's."""

from functools import partial

from musadata.verifier.backends.loaders import RequestLibrary
from musadata.verifier.backends.native import native_hook

DEVICE = "musa"
HAS_DRIVER = True
configure = partial(native_hook.configure, DEVICE)
begin_call, end_call = native_hook.begin_call, native_hook.end_call
snapshot_memory, changed_memory = native_hook.snapshot_memory, native_hook.changed_memory
take_records = native_hook.take_records


def guard_memory(poison: int) -> None:
    """Not done here: it is not known what this device's allocator reports."""


def poison_memory() -> None:
    """Not done here either."""


def prepare() -> None:
    """Import everything and load the bridge, but do not touch the device: a fork would not survive it."""
    import torch_musa  # noqa: F401 - makes torch.musa and the device

    from musadata.verifier.backends.torch_abi.bridge import load_bridge

    load_bridge()


def activate(compile: RequestLibrary, fault_fd: int = -1) -> None:
    """Make `load_inline` and `load` ask `compile` for the library."""
    import torch

    getattr(torch, DEVICE).init()
    native_hook.activate(compile)
