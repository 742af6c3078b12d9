# also: [(5, 24), (5, 32)]
# also: [(17, 24), (17, 32)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.input = nn.Linear(24, 32)
        self.hidden = nn.Linear(32, 32)

    def forward(self, x, h):
        return torch.tanh(self.input(x) + self.hidden(h))


def get_inputs():
    return [torch.randn(10, 24), torch.randn(10, 32)]


def get_init_inputs():
    return []
