"""Preload of the sandbox: captures a small reference once in the process that captures are forked from.

This saves every child the lazy imports inside torch (sympy, the decompositions, fake tensors), about a second.
"""

from musadata.teacher.compiler.capturing.capture import capture

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
_SHAPES = [
    [{"name": "x", "kind": "normal", "dtype": "float32", "shape": [batch, 2, 8, 5], "low": 0, "high": 0, "literal": ""}]
    for batch in (2, 3)
]
capture(_SMALL, _SHAPES, 0)
