# also: [(5, 96)]
# also: [(33, 96)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(96))

    def forward(self, x):
        return x + self.bias


def get_inputs():
    return [torch.randn(16, 96)]


def get_init_inputs():
    return []
