# also: [(7, 50), (7,)]
# also: [(33, 50), (33,)]
# input 1: integers 0 50
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, target):
        return nn.functional.cross_entropy(x, target)


def get_inputs():
    return [torch.randn(24, 50), torch.randint(0, 50, (24,))]


def get_init_inputs():
    return []
