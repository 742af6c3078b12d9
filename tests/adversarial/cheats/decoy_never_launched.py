# task: layernorm
# cheat: a full kernel is defined and compiled, and never launched
# row: a decoy kernel, defined and never launched
# rule: legality.aten
# expect: not_allowed
# naive: accepts; the answer is PyTorch's own
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void layernorm_kernel(const float* x, const float* w, const float* b, float* y, int width) {
    __shared__ float s[256];
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += x[blockIdx.x * width + i];
    s[threadIdx.x] = sum;
    __syncthreads();
    y[blockIdx.x * width + threadIdx.x] = s[0] * w[threadIdx.x] + b[threadIdx.x];
}
torch::Tensor layernorm(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    return torch::layer_norm(x, w.sizes(), w, b);
}
"""
ext = load_inline(name="layernorm_decoy", cpp_sources="torch::Tensor layernorm(torch::Tensor x, torch::Tensor w, torch::Tensor b);", cuda_sources=source, functions=["layernorm"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(160)

    def forward(self, x):
        return ext.layernorm(x, self.norm.weight, self.norm.bias)
