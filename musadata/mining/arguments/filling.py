"""Cheap initialization of large parameters during the argument search. Runs inside the sandbox.

For a fifth of timm's modules the search took 32 CPU seconds, 18 of them in constructors, most of that for drawing
random numbers that are never read.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

PERIOD = 4093  # a prime, so that the rows of a matrix differ
LARGE = 4 * PERIOD
FILLING = ("uniform_", "normal_")
DRAWING = {"rand": "uniform_", "randn": "normal_"}


@contextmanager
def cheap_filling() -> Iterator[None]:
    """Inside, only the first numbers of a large random tensor are drawn, and then repeated."""
    drawing = {name: getattr(torch, name) for name in DRAWING}
    for name in FILLING:
        setattr(torch.Tensor, name, _repeating(getattr(torch.Tensor, name)))
    for name, fill in DRAWING.items():
        setattr(torch, name, _drawing(drawing[name], fill))
    try:
        yield
    finally:
        for name in FILLING:
            delattr(torch.Tensor, name)  # the original is inherited
        for name, draw in drawing.items():
            setattr(torch, name, draw)


def _repeating(fill: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def filled(tensor: torch.Tensor, *args: Any, **keywords: Any) -> torch.Tensor:
        plain = tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.is_contiguous()
        if tensor.numel() < LARGE or not plain or (tensor.requires_grad and torch.is_grad_enabled()):
            return fill(tensor, *args, **keywords)
        flat = tensor.detach().view(-1)
        fill(flat[:PERIOD], *args, **keywords)
        done = PERIOD
        while done < len(flat):
            count = min(done, len(flat) - done)
            flat[done : done + count].copy_(flat[:count])
            done += count
        return tensor

    return filled


def _drawing(draw: Callable[..., torch.Tensor], fill: str) -> Callable[..., torch.Tensor]:
    def drawn(*size: Any, **keywords: Any) -> torch.Tensor:
        shape = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
        if keywords or any(type(item) is not int or item < 0 for item in shape) or math.prod(shape) < LARGE:
            return draw(*size, **keywords)
        tensor: torch.Tensor = getattr(torch.empty(shape), fill)()
        return tensor

    return drawn
