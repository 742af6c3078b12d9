# input 1: permutation 0 24
# also: [(7, 33), (7,)]
# also: [(33, 9), (33,)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, order):
        out = torch.zeros_like(x)
        out[order] = x
        return out


def get_inputs():
    return [torch.randn(24, 30), torch.randperm(24)]


def get_init_inputs():
    return []
