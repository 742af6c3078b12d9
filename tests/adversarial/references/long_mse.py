# also: [(40002,), (40002,)]
# also: [(50051,), (50051,)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return nn.functional.mse_loss(x, y)


def get_inputs():
    return [torch.randn(65537), torch.randn(65537)]


def get_init_inputs():
    return []
