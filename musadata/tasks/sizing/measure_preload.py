"""Warm-up for the process that probes are forked from: finds the measure size of a small reference on import.

This loads what fake tensors need, half a second of imports inside torch.
"""

from dataclasses import asdict

from musadata.records import InputSpec
from musadata.tasks.sizing.measure import find_measure

_SMALL = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 2, 3)
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.softmax(self.linear(torch.relu(self.conv(x)).mean(2)), dim=-1)


def get_inputs():
    return [torch.zeros(2, 2, 8, 5)]


def get_init_inputs():
    return []
"""
find_measure(_SMALL, [asdict(InputSpec("x", "normal", "float32", (2, 2, 8, 5)))])
