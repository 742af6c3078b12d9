"""Counting the multiply-adds of convolutions and matrix products in one call. Runs inside the sandbox.

Beside it: refusing code that takes one tensor apart where several were meant. `spike, trace = x` fits any two rows, and
so does `x, loss = self.layer(x)` with a layer of torch.
"""

import dis
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from musadata.dispatch import DispatchMode
from musadata.mining.arguments.growth import TooLarge
from musadata.mining.reading.messages import ROWS

UNPACKING = dis.opmap["UNPACK_SEQUENCE"]
CHARGE_OF_ACTIVATIONS = 20_000_000  # parameters charged for too large ones
MAX_ACTIVATION = 1 << 25  # elements that a layer gets; no task needs as many, and one convolution took half a minute


class OperationCounter(DispatchMode):
    """Counts while it is active. Torch's own counter imports the compiler first, which takes seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.total += _operations(func.overloadpacket.__name__, args, result)
        return result


def _operations(name: str, args: Any, result: Any) -> int:
    if name in ("mm", "bmm"):
        return math.prod(args[0].shape) * int(args[1].shape[-1])
    if name in ("addmm", "baddbmm"):
        return math.prod(args[1].shape) * int(args[2].shape[-1])
    if name in ("convolution", "_convolution", "mkldnn_convolution"):
        weight, transposed = args[1], len(args) > 6 and bool(args[6])
        places: torch.Tensor = args[0] if transposed else result
        return math.prod(places.shape) * math.prod(weight.shape[1:])
    if "scaled_dot_product" in name:
        query, key = args[0], args[1]
        return 2 * math.prod(query.shape) * int(key.shape[-2])
    return 0


class Work:
    """The multiply-adds of layers so far: no exact count, but the same on every machine.

    `layers`: calls that ended. `last`: what the last of torch's own returned.
    """

    total = 0
    layers = 0
    last: Any = None


@contextmanager
def counted_work() -> Iterator[Work]:
    """Count what convolutions and linear layers do, also in a call that fails. Costs less than a dispatch mode.

    A layer that gets too much raises `TooLarge`.
    """
    work = Work()

    def bound(layer: Any, inputs: Any) -> None:
        if any(isinstance(item, torch.Tensor) and item.numel() > MAX_ACTIVATION for item in inputs):
            raise TooLarge("activations", CHARGE_OF_ACTIVATIONS)

    def count(layer: Any, inputs: Any, output: Any) -> None:
        work.layers += 1
        work.last = output if type(layer).__module__.startswith("torch.") else work.last
        weight = layer.__dict__.get("_parameters", {}).get("weight")
        if weight is not None and weight.dim() > 1 and isinstance(output, torch.Tensor):
            work.total += weight.numel() * output.numel() // max(1, weight.shape[0])

    hooks = [register_module_forward_hook(count), register_module_forward_pre_hook(bound)]
    try:
        yield work
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def refusing_rows(inputs: Sequence[Any], file: str, work: Work) -> Iterator[None]:
    """Inside, code of a file that unpacks the rows of an input, or of what a layer or another `forward` has returned,
    fails as with a wrong number of rows."""
    taken = [item for item in inputs if isinstance(item, torch.Tensor)]
    batches = {len(item) for item in taken if item.dim()}
    original = torch.Tensor.__iter__

    def rows(self: torch.Tensor) -> Any:
        frame = sys._getframe(1)
        code, place = frame.f_code.co_code, frame.f_lasti
        if frame.f_code.co_filename == file and code[place] == UNPACKING:
            is_result = self is work.last or ("forward" in frame.f_code.co_names and len(self) in batches)
            if is_result or any(self is item for item in taken):
                raise ValueError(f"{ROWS}, not several values to unpack (expected {code[place + 1]})")
        return original(self)

    torch.Tensor.__iter__ = rows  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.Tensor.__iter__ = original  # type: ignore[method-assign]
