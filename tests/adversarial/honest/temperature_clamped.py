# task: temperature
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void heat_kernel(const float* x, const float* t, float* y, int n, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    float heat = t[i / n];
    y[i] = sinf(x[i % n]) * (heat > 9.0f ? 9.0f : heat);
}
torch::Tensor heat(torch::Tensor x, torch::Tensor t) {
    auto dense = x.contiguous();
    auto y = torch::empty({3, dense.size(0), dense.size(1)}, dense.options());
    int n = dense.numel(), total = 3 * n;
    heat_kernel<<<(total + 127) / 128, 128>>>(dense.data_ptr<float>(), t.contiguous().data_ptr<float>(), y.data_ptr<float>(), n, total);
    return y;
}
"""
ext = load_inline(name="heat_clamped", cpp_sources="torch::Tensor heat(torch::Tensor x, torch::Tensor t);", cuda_sources=source, functions=["heat"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.full((3, 1, 1), 2.0))

    def forward(self, x):
        return ext.heat(x, self.temperature)
