"""Code that takes one input apart where several were meant: `spike, trace = x` fits any tensor of two rows."""

import dis
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

UNPACKING = dis.opmap["UNPACK_SEQUENCE"]


@contextmanager
def refusing_rows(inputs: Sequence[Any], file: str) -> Iterator[None]:
    """Inside, code of a file that unpacks the rows of an input fails as with a wrong number of rows."""
    taken = [item for item in inputs if isinstance(item, torch.Tensor)]
    original = torch.Tensor.__iter__

    def rows(self: torch.Tensor) -> Any:
        frame = sys._getframe(1)
        code, place = frame.f_code.co_code, frame.f_lasti
        if frame.f_code.co_filename == file and code[place] == UNPACKING and any(self is item for item in taken):
            raise ValueError(f"rows of one input, not several values to unpack (expected {code[place + 1]})")
        return original(self)

    torch.Tensor.__iter__ = rows  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.Tensor.__iter__ = original  # type: ignore[method-assign]
