# also: [(3, 515)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.topk(x, 6, dim=-1).values


def get_inputs():
    return [torch.randn(9, 768)]


def get_init_inputs():
    return []
