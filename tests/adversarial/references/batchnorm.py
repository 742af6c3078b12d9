# also: [(3, 12, 7, 5)]
# also: [(1, 12, 16, 3)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm2d(12).eval()

    def forward(self, x):
        return self.bn(x)


def get_inputs():
    return [torch.randn(4, 12, 9, 10)]


def get_init_inputs():
    return []
