# input 1: choice (-1.0, 1.0)
# also: [(3, 171), (3, 171)]
# also: [(3, 517), (3, 517)]
import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def forward(self, x, label):
        return F.hinge_embedding_loss(x, label)


def get_inputs():
    return [torch.randn(18, 96), torch.randint(0, 2, (18, 96)) * 2.0 - 1.0]


def get_init_inputs():
    return []
