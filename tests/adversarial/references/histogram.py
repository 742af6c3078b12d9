# also: [(171,)]
# also: [(5003,)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.histc(x, bins=16, min=-2.0, max=2.0)


def get_inputs():
    return [torch.randn(3000)]


def get_init_inputs():
    return []
