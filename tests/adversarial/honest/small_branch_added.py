# task: small_branch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void branch_kernel(const float* x, const float* g, float* y, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + g[i % width] / (1.0f + expf(-x[i]));
}
torch::Tensor branch(torch::Tensor x, torch::Tensor g) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    branch_kernel<<<(n + 127) / 128, 128>>>(dense.data_ptr<float>(), g.contiguous().data_ptr<float>(), y.data_ptr<float>(), n, g.numel());
    return y;
}
"""
ext = load_inline(name="branch_added", cpp_sources="torch::Tensor branch(torch::Tensor x, torch::Tensor g);", cuda_sources=source, functions=["branch"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(1e-6 * torch.ones(33))

    def forward(self, x):
        return ext.branch(x, self.gamma)
