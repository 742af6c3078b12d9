# also: [(3, 12)]
# also: [(17, 12)]
# also: [(150, 12)]
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, d, e):
        super().__init__()
        self.gate = nn.Linear(d, e, bias=False)
        self.w = nn.Parameter(torch.randn(e, d, d) * 0.1)

    def forward(self, x):
        p = torch.softmax(self.gate(x), -1)
        v, i = p.topk(2, -1)
        v = v / v.sum(-1, keepdim=True)
        y = torch.einsum("nd,edf->nef", x, self.w)
        return (y.gather(1, i[..., None].expand(-1, -1, y.shape[-1])) * v[..., None]).sum(1)


def get_inputs():
    return [torch.randn(7, 12)]


def get_init_inputs():
    return [12, 4]
