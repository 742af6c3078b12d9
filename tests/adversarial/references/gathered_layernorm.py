# input 0: normal -200 200
# input 1: integers 0 20
# also: [(9, 23), (9, 9)]
# also: [(5, 33), (5, 9)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(9)

    def forward(self, x, index):
        return self.norm(torch.gather(x, 1, index))


def get_inputs():
    return [200 * torch.randn(32, 40), torch.randint(0, 20, (32, 9))]


def get_init_inputs():
    return []
