# also: [(3, 40)]
# also: [(17, 40)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features, out_features, groups, low, high):
        super().__init__()
        self.gemm = nn.Linear(features, out_features)
        self.group_norm = nn.GroupNorm(groups, out_features)
        self.hardtanh = nn.Hardtanh(min_val=low, max_val=high)

    def forward(self, x):
        return self.hardtanh(self.group_norm(self.gemm(x)))


def get_inputs():
    return [torch.randn(9, 40)]


def get_init_inputs():
    return [40, 48, 4, -1.5, 1.5]
