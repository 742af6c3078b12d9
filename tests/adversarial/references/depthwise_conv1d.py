# also: [(1, 6, 33)]
# also: [(3, 6, 141)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(6, 6, 5, padding=2, groups=6)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 6, 70)]


def get_init_inputs():
    return []
