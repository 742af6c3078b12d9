# also: [(7, 33)]
# also: [(3, 517)]
# input 0: normal -0.02 0.02
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(12, 256) * 0.02]


def get_init_inputs():
    return []
