# task: layernorm
# cheat: the fallback hides in the forward of an autograd.Function
# row: falls back to torch
# rule: legality.compute
# expect: not_allowed
# naive: accepts; the answer is PyTorch's own
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void affine(const float* x, const float* w, const float* b, float* y, int width, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * w[i % width] + b[i % width];
}
torch::Tensor scale(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    affine<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), w.numel(), n);
    return y;
}
"""
ext = load_inline(name="affine_rows", cpp_sources="torch::Tensor scale(torch::Tensor x, torch::Tensor w, torch::Tensor b);", cuda_sources=source, functions=["scale"])


class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        centred = x - x.mean(-1, keepdim=True)
        normal = centred * (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        return ext.scale(normal.contiguous(), weight, bias)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(160)

    def forward(self, x):
        return Rows.apply(x, self.norm.weight, self.norm.bias)
