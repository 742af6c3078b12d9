"""Tensors one behind another as bytes, as they pass through a window in chunks: see `sandboxed.window`."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from musadata.verifier.protocol.messages import TensorFacts
from musadata.verifier.protocol.tensors import DTYPES

_ALIGNMENT = 16  # of each tensor: at least the size of any element


class Stream:
    """Tensors one behind another, as bytes: what passes through a window, a chunk at a time.

    Attributes:
        length: bytes of the whole stream.
    """

    def __init__(self, sizes: Sequence[int]):
        self._sizes = list(sizes)
        self._starts = []
        self.length = 0
        for size in sizes:
            self._starts.append(self.length)
            self.length += -(-size // _ALIGNMENT) * _ALIGNMENT

    def pieces(self, start: int, size: int) -> Iterator[tuple[int, int, int, int]]:
        """Of the chunk of `size` bytes from `start` on: (tensor, its first byte, first byte in the chunk, bytes)."""
        for number, (first, length) in enumerate(zip(self._starts, self._sizes, strict=True)):
            low, high = max(first, start), min(first + length, start + size)
            if low < high:
                yield number, low - first, low - start, high - low


def stream_of(tensors: Sequence[TensorFacts]) -> Stream:
    """The stream of tensors that are known without their values."""
    return Stream([math.prod(one.shape) * np.dtype(DTYPES[one.dtype]).itemsize for one in tensors])
