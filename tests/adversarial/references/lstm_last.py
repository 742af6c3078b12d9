# also: [(2, 3, 10), (2, 2, 16), (2, 2, 16)]
# also: [(5, 7, 10), (2, 5, 16), (2, 5, 16)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features, hidden, layers, classes):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x, h0, c0):
        steps, _ = self.lstm(x, (h0, c0))
        return self.fc(steps[:, -1, :])


def get_inputs():
    return [torch.randn(3, 6, 10), torch.randn(2, 3, 16), torch.randn(2, 3, 16)]


def get_init_inputs():
    return [10, 16, 2, 5]
