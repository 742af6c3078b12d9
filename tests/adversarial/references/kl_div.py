# also: [(7, 33), (7, 33)]
# also: [(3, 257), (3, 257)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return nn.functional.kl_div(torch.log_softmax(x, dim=-1), torch.softmax(y, dim=-1), reduction="batchmean")


def get_inputs():
    return [torch.randn(8, 120), torch.randn(8, 120)]


def get_init_inputs():
    return []
