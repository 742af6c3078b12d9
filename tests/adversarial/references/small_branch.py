# also: [(7, 33)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(1e-6 * torch.ones(33))

    def forward(self, x):
        return x + self.gamma * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(20, 33)]


def get_init_inputs():
    return []
