# input 1: uniform 1.0 1.000001
# also: [(3, 171), (1,)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, gain):
        return torch.cos(x) * gain


def get_inputs():
    return [torch.randn(12, 50), torch.ones(1)]


def get_init_inputs():
    return []
