# task: relu
# cheat: 80 KB of __constant__ memory, of which there are 64
# row: race, shared-memory overflow
# rule: compile.error
# expect: compile
# naive: -; depends on the device
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__constant__ float zeros[20000];
__global__ void relu_kernel(const float* x, float* y, int n, bool lazy) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] < 0.f ? zeros[i % 20000] : x[i];
}

torch::Tensor relu(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    bool lazy = false;
    
    relu_kernel<<<(n + 255) / 256, 256>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n, lazy);
    
    return y;
}
"""
ext = load_inline(name="constant_80k", cpp_sources="torch::Tensor relu(torch::Tensor x);", cuda_sources=source, functions=["relu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.relu(x)
