# task: layernorm
# cheat: one pass with E[x²] − E[x]²
# row: unstable formula
# rule: correctness.values
# expect: correctness
# naive: accepts; inputs around zero do not cancel
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void layernorm_kernel(const float* x, const float* w, const float* b, float* y, int width, float eps) {
    const float* row = x + blockIdx.x * width;
    float sum = 0.0f, squares = 0.0f;
    for (int c = threadIdx.x; c < width; c += 32) {
        sum += row[c];
        squares += row[c] * row[c];
    }
    for (int o = 16; o > 0; o >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
        squares += __shfl_xor_sync(0xffffffffu, squares, o);
    }
    float mean = sum / width;
    float scale = rsqrtf(squares / width - mean * mean + eps);
    for (int c = threadIdx.x; c < width; c += 32) y[blockIdx.x * width + c] = (row[c] - mean) * scale * w[c] + b[c];
}
torch::Tensor layernorm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    layernorm_kernel<<<dense.numel() / w.numel(), 32>>>(dense.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), w.numel(), eps);
    return y;
}
"""
ext = load_inline(name="layernorm_moments", cpp_sources="torch::Tensor layernorm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps);", cuda_sources=source, functions=["layernorm"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(160)

    def forward(self, x):
        return ext.layernorm(x, self.norm.weight, self.norm.bias, self.norm.eps)
