# also: [(17,), (33,)]
# also: [(130,), (7,)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.outer(x, y)


def get_inputs():
    return [torch.randn(60), torch.randn(75)]


def get_init_inputs():
    return []
