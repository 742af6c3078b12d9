# also: [(5, 72)]
# also: [(33, 72)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(72, 50)

    def forward(self, x):
        return torch.relu(self.linear(x)) * 0.5


def get_inputs():
    return [torch.randn(12, 72)]


def get_init_inputs():
    return []
