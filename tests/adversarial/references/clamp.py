# also: [(7, 33)]
# also: [(3, 171)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.clamp(x, -0.75, 1.25)


def get_inputs():
    return [torch.randn(16, 128)]


def get_init_inputs():
    return []
