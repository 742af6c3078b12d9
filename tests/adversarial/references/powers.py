# input 0: uniform 0 0.2
# also: [(77,)]
# also: [(513,)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.stack([x**k for k in range(12)], dim=1)


def get_inputs():
    return [torch.rand(300) * 0.2]


def get_init_inputs():
    return []
