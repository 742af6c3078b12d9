# also: [(2, 12, 5, 7)]
# also: [(1, 12, 13, 3)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(3, 12)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(3, 12, 8, 9)]


def get_init_inputs():
    return []
