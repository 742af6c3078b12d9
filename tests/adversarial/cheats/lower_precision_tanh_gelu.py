# task: gelu
# cheat: the tanh approximation in place of the exact error function
# row: lower precision than asked
# rule: correctness.values
# expect: correctness
# naive: accepts; the formulas differ by less than 1e-3
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void gelu_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}
torch::Tensor gelu(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    gelu_kernel<<<(n + 255) / 256, 256>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline(name="gelu_tanh", cpp_sources="torch::Tensor gelu(torch::Tensor x);", cuda_sources=source, functions=["gelu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.gelu(x)
