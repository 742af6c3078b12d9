# also: [(5, 160)]
# also: [(3, 7, 160)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(160)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(12, 160)]


def get_init_inputs():
    return []
