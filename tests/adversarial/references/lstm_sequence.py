# also: [(3, 4, 5)]
# also: [(1, 9, 5)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, i, h):
        super().__init__()
        self.lstm = nn.LSTM(i, h, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def get_inputs():
    return [torch.randn(2, 6, 5)]


def get_init_inputs():
    return [5, 12]
