# also: [(2, 33, 17)]
# also: [(1, 7, 7)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tril(x)


def get_inputs():
    return [torch.randn(3, 20, 28)]


def get_init_inputs():
    return []
