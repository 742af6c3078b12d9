# also: [(1, 2, 33, 9), (1, 2, 33, 9), (1, 2, 33, 9)]
# also: [(2, 1, 40, 32), (2, 1, 40, 32), (2, 1, 40, 32)]
# also: [(1, 2, 19, 64), (1, 2, 19, 64), (1, 2, 19, 64)]
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [torch.randn(2, 3, 24, 16), torch.randn(2, 3, 24, 16), torch.randn(2, 3, 24, 16)]


def get_init_inputs():
    return []
