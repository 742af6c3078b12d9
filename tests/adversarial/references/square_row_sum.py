# also: [(7, 33)]
# also: [(40, 9)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=1)


def get_inputs():
    return [torch.randn(32, 32)]


def get_init_inputs():
    return []
