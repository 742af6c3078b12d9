# task: l2_normalize
# cheat: leaves the epsilon out, which only shows on small inputs
# row: changes hyper-parameters
# rule: correctness.values
# expect: correctness
# naive: accepts; 1e-6 is nothing beside a norm of 16
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void l2_kernel(const float* x, float* y, int cols) {
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) sum += x[blockIdx.x * cols + c] * x[blockIdx.x * cols + c];
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    float scale = rsqrtf(sum + 1e-4f);
    for (int c = threadIdx.x; c < cols; c += 32) y[blockIdx.x * cols + c] = x[blockIdx.x * cols + c] * scale;
}
torch::Tensor run(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    l2_kernel<<<dense.size(0), 32>>>(dense.data_ptr<float>(), y.data_ptr<float>(), dense.size(1));
    return y;
}
"""
ext = load_inline(name="l2_epsilon", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
