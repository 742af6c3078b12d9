# also: [(33, 7)]
# also: [(65, 16)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        weights, experts = torch.softmax(x, dim=1).topk(2, dim=1)
        return weights / weights.sum(dim=1, keepdim=True), experts


def get_inputs():
    return [torch.randn(50, 8)]


def get_init_inputs():
    return []
