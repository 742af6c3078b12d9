"""What the corpora of `benchmarks.outages` are mined from."""

import torch
from torch import nn


class ScaledGate(nn.Module):
    """Gates a value by the sigmoid of another, scaled.

    Example:
        >>> m = ScaledGate(0.5)
        >>> y = m(torch.randn(4, 33), torch.randn(4, 33))
    """

    def __init__(self, scale: float):
        super().__init__()
        self.scale = scale

    def forward(self, value, gate):
        return self.scale * value * torch.sigmoid(gate)


class ShiftedNorm(nn.Module):
    """Divides rows by their norm, plus a learnt shift.

    Example:
        >>> m = ShiftedNorm(24)
        >>> y = m(torch.randn(6, 24))
    """

    def __init__(self, width: int):
        super().__init__()
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return x / (x.norm(dim=-1, keepdim=True) + 1e-3) + self.shift
