# also: [(7, 33)]
# also: [(3, 517)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1).sum(dim=1), x.amax(dim=1)


def get_inputs():
    return [torch.randn(12, 256)]


def get_init_inputs():
    return []
