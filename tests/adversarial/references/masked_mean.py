# input 1: choice (0.0, 1.0)
# also: [(7, 33), (7, 33)]
# also: [(3, 257), (3, 257)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, mask):
        return (x * mask).sum(1) / mask.sum(1).clamp(min=1.0)


def get_inputs():
    return [torch.randn(12, 200), (torch.rand(12, 200) > 0.4).float()]


def get_init_inputs():
    return []
