"""Inside the sandbox, on a real device: what the hooks of the cuda and the musa backend share."""

import ctypes
from collections.abc import Sequence

from musadata.verifier.backends.device_records import Fault, Records, read_launches
from musadata.verifier.backends.loaders import RequestLibrary, replace_loaders

_POISON_BYTES = (64 << 20, *[2 << 20] * 8)
_libraries: list[ctypes.CDLL] = []  # the candidate's


def activate(compile: RequestLibrary) -> None:
    """Make `load_inline` and `load` ask `compile` for the library, and have its launches recorded."""
    replace_loaders(compile, _note_library)


def _note_library(path: str) -> None:
    library = ctypes.CDLL(path)
    library.musadata_take_launches.restype = ctypes.c_char_p
    library.musadata_take_host_bytes.restype = ctypes.c_size_t
    _libraries.append(library)


def configure(
    device: str, *, order: str = "forward", seed: int = 0, poison: int = 0xFF, null_kernels: bool = False
) -> None:
    """How the next call runs. The order of threads is the device's own; fresh memory holds `poison` if it can."""
    import torch

    for library in _libraries:
        library.musadata_set_null_kernels(int(null_kernels))
    # The allocator hands out these blocks next: it keeps what is freed and splits it.
    blocks = [torch.full((size,), poison, dtype=torch.uint8, device=device) for size in _POISON_BYTES]
    getattr(torch, device).synchronize()
    del blocks


def begin_call() -> None:
    """Nothing to do: a device does not record which work waits for which; the emulator's cross-check does."""


def end_call() -> None:
    """Nothing to do; see `begin_call`."""


def snapshot_memory() -> None:
    """Nothing to do: state that a program keeps shows when it is timed, where every call is checked."""


def changed_memory() -> tuple[str, str]:
    """Never known here; see `snapshot_memory`."""
    return "", ""


def take_records(reports: Sequence[Fault] = (), pinned_bytes: int = 0) -> Records:
    """What happened since the last call. Operators are seen by the caller's DispatchWatch."""
    kernels = [launch for library in _libraries for launch in read_launches(library.musadata_take_launches())]
    host_bytes = sum(library.musadata_take_host_bytes() for library in _libraries)
    return Records(kernels, reports=reports, host_bytes=host_bytes, pinned_bytes=pinned_bytes)
