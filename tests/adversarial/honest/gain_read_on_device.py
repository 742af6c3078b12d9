# task: gain_of_one
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void gain_kernel(const float* x, const float* g, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = cosf(x[i]) * g[0];
}
torch::Tensor gained(torch::Tensor x, torch::Tensor g) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    gain_kernel<<<(n + 127) / 128, 128>>>(dense.data_ptr<float>(), g.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline(name="gain_read", cpp_sources="torch::Tensor gained(torch::Tensor x, torch::Tensor g);", cuda_sources=source, functions=["gained"])


class ModelNew(nn.Module):
    def forward(self, x, gain):
        return ext.gained(x, gain)
