# also: [(5, 33)]
# also: [(7, 130)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0 + 1.0


def get_inputs():
    return [torch.randn(6, 102)]


def get_init_inputs():
    return []
