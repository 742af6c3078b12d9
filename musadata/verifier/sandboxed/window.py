"""Memory that the processes of a candidate and of its reference share, to hand over what is too large for a pipe.

On a CUDA device it is memory of the device; elsewhere, and where the driver does not share its memory, memory of the
host. It is small: tensors pass through it in chunks, and whoever receives one copies it before looking at it, so that
nothing the sender does later changes what was received.
"""

import mmap
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from musadata.sandbox import Descriptor
from musadata.verifier.protocol.streams import Stream
from musadata.verifier.sandboxed.cuda_driver import bytes_at, check

_GRANULE = 2 << 20  # of the device's shareable memory


class WindowFailed(RuntimeError):
    """The memory of another process cannot be mapped here; no candidate is to blame."""


@dataclass
class Window:
    """Shared memory. `memory`: its bytes, on the device or on the host; `kind`: "device" or "host"."""

    kind: str
    memory: torch.Tensor
    file: Descriptor
    _mapping: Any = None

    def close(self) -> None:
        """Give the memory back once all that looked at it are gone."""
        size = self.memory.numel()
        del self.memory
        if self.kind == "device":
            torch.cuda.synchronize()
            _unmap(self._mapping, size)


def open_window(device: str, kind: str, size: int) -> Window:
    """New memory, all zeros, of `size` bytes, a multiple of 2 MiB; of the host where the device cannot share its own.

    Raises:
        OSError: the system has no memory.
    """
    if device == "cuda" and kind == "device":
        try:
            return _open_on_device(size)
        except (ImportError, RuntimeError) as error:
            warnings.warn(f"the device's memory cannot be shared between processes: {error}"[:300], stacklevel=2)
    number = os.memfd_create("musadata-window")
    os.truncate(number, size)
    return attach_window("host", Descriptor(number), size)


def attach_window(kind: str, file: Descriptor, size: int) -> Window:
    """The same memory in another process.

    Raises:
        WindowFailed: it cannot be mapped.
    """
    if kind == "device":
        try:
            return _attach_on_device(file, size)
        except (ImportError, RuntimeError) as error:
            raise WindowFailed(str(error)) from error
    mapping = mmap.mmap(file.number, size)
    return Window("host", torch.frombuffer(mapping, dtype=torch.uint8), file, mapping)


def _open_on_device(size: int) -> Window:
    from cuda.bindings import driver

    torch.empty(1, device="cuda")  # makes the context
    prop = _describe_memory()
    handle = check(driver.cuMemCreate(size, prop, 0))
    try:
        number = check(driver.cuMemExportToShareableHandle(handle, prop.requestedHandleTypes, 0))
        window = _map(handle, size, Descriptor(int(number)))
    finally:
        check(driver.cuMemRelease(handle))  # the mapping and the file keep the memory
    window.memory.zero_()
    torch.cuda.synchronize()
    return window


def _attach_on_device(file: Descriptor, size: int) -> Window:
    from cuda.bindings import driver

    kind = _describe_memory().requestedHandleTypes
    handle = check(driver.cuMemImportFromShareableHandle(file.number, kind))
    try:
        return _map(handle, size, file)
    finally:
        check(driver.cuMemRelease(handle))


def _describe_memory() -> Any:
    from cuda.bindings import driver

    prop = driver.CUmemAllocationProp()
    prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = torch.cuda.current_device()
    prop.requestedHandleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    return prop


def _map(handle: Any, size: int, file: Descriptor) -> Window:
    from cuda.bindings import driver

    address = check(driver.cuMemAddressReserve(size, _GRANULE, 0, 0))
    check(driver.cuMemMap(address, size, 0, handle, 0))
    access = driver.CUmemAccessDesc()
    access.location = _describe_memory().location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    check(driver.cuMemSetAccess(address, size, [access], 1))
    memory = bytes_at(int(address), size)
    if memory.data_ptr() != int(address):
        raise RuntimeError("PyTorch makes a copy of the device's shared memory")
    return Window("device", memory, file, address)


def _unmap(address: Any, size: int) -> None:
    from cuda.bindings import driver

    check(driver.cuMemUnmap(address, size))
    check(driver.cuMemAddressFree(address, size))


def size_of(tensor: torch.Tensor) -> int:
    """Bytes of its elements."""
    return tensor.numel() * tensor.element_size()


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a dense tensor, without a copy."""
    return tensor.detach().view(-1).view(torch.uint8)


def put_chunk(window: Window, tensors: Sequence[torch.Tensor], start: int) -> None:
    """Copy the chunk of these dense tensors from byte `start` on into the window."""
    _copy(window, tensors, start, into_window=True)


def take_chunk(window: Window, tensors: Sequence[torch.Tensor], start: int) -> None:
    """Copy the chunk in the window into these dense tensors."""
    _copy(window, tensors, start, into_window=False)


def _copy(window: Window, tensors: Sequence[torch.Tensor], start: int, into_window: bool) -> None:
    stream = Stream([size_of(tensor) for tensor in tensors])
    with torch.no_grad():
        for number, first, at, count in stream.pieces(start, window.memory.numel()):
            own, shared = bytes_of(tensors[number])[first : first + count], window.memory[at : at + count]
            (shared if into_window else own).copy_(own if into_window else shared)
    if any(tensor.is_cuda for tensor in tensors):
        torch.cuda.synchronize()
