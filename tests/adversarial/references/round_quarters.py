# also: [(7, 33)]
# also: [(3, 257)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.round(x * 4) / 4


def get_inputs():
    return [torch.randn(12, 120)]


def get_init_inputs():
    return []
