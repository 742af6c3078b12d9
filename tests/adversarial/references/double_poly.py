# also: [(7, 33)]
# also: [(3, 171)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return ((0.25 * x - 1.5) * x + 0.75) * x + 2.0


def get_inputs():
    return [torch.randn(8, 100, dtype=torch.float64)]


def get_init_inputs():
    return []
