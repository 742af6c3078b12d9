# also: [(2, 19, 12)]
# also: [(5, 33, 12)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.input = nn.Linear(12, 20)
        self.hidden = nn.Linear(20, 20)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 20)
        steps = []
        for step in x.unbind(1):
            h = torch.tanh(self.input(step) + self.hidden(h))
            steps.append(h)
        return torch.stack(steps, dim=1)


def get_inputs():
    return [torch.randn(4, 24, 12)]


def get_init_inputs():
    return []
