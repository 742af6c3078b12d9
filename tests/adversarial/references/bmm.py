# also: [(2, 17, 9), (2, 9, 33)]
# also: [(2, 3, 9), (2, 9, 141)]
# also: [(2, 5, 70), (2, 70, 37)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(3, 24, 20), torch.randn(3, 20, 28)]


def get_init_inputs():
    return []
