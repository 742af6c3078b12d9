"""Warm-up for the process that probes are forked from: runs a small reference on import.

This loads lazy imports inside torch and the caches of `isinstance` on abstract classes, 100 ms together. No gradients
are computed, since their threads would not survive a fork.
"""

import torch

from musadata.tasks.examination import run_recorded
from musadata.tasks.text import text_signature


class _Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 2, 3)
        self.pool = torch.nn.AvgPool2d(2)
        self.norm = torch.nn.BatchNorm2d(2)
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.linear(self.pool(self.norm(self.conv(x)))), dim=-1)


with torch.no_grad():
    run_recorded(_Small().eval(), [torch.zeros(1, 2, 8, 8)], 1 << 10)
text_signature("x = 1")
