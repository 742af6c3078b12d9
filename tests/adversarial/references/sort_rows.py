# also: [(3, 171)]
# also: [(7, 33)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sort(x, dim=-1)[0]


def get_inputs():
    return [torch.randn(5, 100)]


def get_init_inputs():
    return []
