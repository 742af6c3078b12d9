"""Tensors as bytes between processes: a JSON header and raw little-endian data. Nothing is ever unpickled.

The trusted side reads them as numpy arrays and never imports torch, which keeps a worker small.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

# By torch's name. numpy has no bfloat16, which is widened to float32 on reading.
_SAME_IN_NUMPY = (
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "complex64", "complex128",
)  # fmt: skip
DTYPES = {name: getattr(np, name) for name in _SAME_IN_NUMPY} | {"bfloat16": np.uint16, "bool": np.uint8}
_MAX_HEADER = 16 << 20


class BadTensors(Exception):
    """The bytes are not packed tensors."""


@dataclass(frozen=True)
class Array:
    """One tensor on the trusted side: its values, with bfloat16 widened to float32, and its raw bytes."""

    dtype: str
    shape: tuple[int, ...]
    values: np.ndarray
    raw: bytes


def pack(tensors: "Mapping[str, torch.Tensor]") -> bytes:
    """Named dense CPU tensors as bytes, without their strides. For processes that have loaded torch."""
    import torch

    entries, chunks = [], []
    for name, tensor in tensors.items():
        dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
        flat = dense.reshape(-1).as_strided((dense.numel(),), (1,))  # one element may have any stride
        data = bytes(flat.view(torch.uint8).numpy()) if dense.numel() else b""
        entries.append([name, str(dense.dtype).removeprefix("torch."), list(dense.shape), len(data)])
        chunks.append(data)
    header = json.dumps(entries).encode()
    return b"".join([struct.pack("<I", len(header)), header, *chunks])


def unpack_torch(data: bytes) -> "dict[str, torch.Tensor]":
    """The packed tensors as CPU tensors that own their memory."""
    import torch

    found = {}
    for name, dtype, shape, raw in _entries(data):
        kind = getattr(torch, dtype)
        flat = torch.frombuffer(bytearray(raw), dtype=kind) if raw else torch.empty(0, dtype=kind)
        found[name] = flat.reshape(shape)
    return found


def unpack(data: bytes) -> dict[str, Array]:
    """The packed tensors as numpy arrays.

    Raises:
        BadTensors: the bytes are not packed tensors.
    """
    return {name: _array(dtype, tuple(shape), raw) for name, dtype, shape, raw in _entries(data)}


def _array(dtype: str, shape: tuple[int, ...], raw: bytes) -> Array:
    values = np.frombuffer(raw, dtype=DTYPES[dtype]).reshape(shape)
    if dtype == "bfloat16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return Array(dtype, shape, values, raw)


def _entries(data: bytes) -> list[tuple[str, str, list[int], bytes]]:
    try:
        (size,) = struct.unpack_from("<I", data)
        if size > _MAX_HEADER:
            raise BadTensors("the header is too long")
        header: Any = json.loads(data[4 : 4 + size])
        if not isinstance(header, list):
            raise BadTensors("the header is no list")
        return _slices(data, 4 + size, header)
    except (struct.error, ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadTensors("not packed tensors") from error


def _slices(data: bytes, position: int, header: list[Any]) -> list[tuple[str, str, list[int], bytes]]:
    entries = []
    for name, dtype, shape, length in header:
        if not isinstance(name, str) or dtype not in DTYPES or not all(type(n) is int and n >= 0 for n in shape):
            raise BadTensors("a tensor is badly described")
        if length != math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize or position + length > len(data):
            raise BadTensors("a tensor has the wrong number of bytes")
        entries.append((name, dtype, shape, data[position : position + length]))
        position += length
    return entries
