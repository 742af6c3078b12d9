"""Inside the sandbox: calling CUDA's driver and NVRTC, and their memory as PyTorch's tensors."""

from typing import Any

import torch


class _Bytes:
    def __init__(self, address: int, size: int):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def bytes_at(address: int, size: int) -> torch.Tensor:
    """Memory of the device by its address, without a copy."""
    return torch.as_tensor(_Bytes(address, size), device="cuda")


def check(result: Any) -> Any:
    """What a call of `cuda.bindings` gives.

    Raises:
        RuntimeError: it fails.
    """
    error, *values = result
    if int(error):
        raise RuntimeError(str(error))
    return values[0] if values else None
