# also: [(7, 40), (7, 33)]
# also: [(3, 40), (3, 17)]
# input 1: integers 0 40
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, index):
        return torch.gather(x, 1, index)


def get_inputs():
    return [torch.randn(12, 40), torch.randint(0, 40, (12, 25))]


def get_init_inputs():
    return []
