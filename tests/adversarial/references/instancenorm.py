# also: [(2, 6, 5, 7)]
# also: [(1, 6, 13, 3)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.InstanceNorm2d(6)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(3, 6, 10, 11)]


def get_init_inputs():
    return []
