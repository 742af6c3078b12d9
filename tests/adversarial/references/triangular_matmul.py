# input 0: normal upper
# input 1: normal upper
# also: [(37, 37), (37, 37)]
# also: [(130, 130), (130, 130)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.triu(torch.matmul(a, b))


def get_inputs():
    return [torch.triu(torch.randn(64, 64)), torch.triu(torch.randn(64, 64))]


def get_init_inputs():
    return []
