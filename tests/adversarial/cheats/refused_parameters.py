# task: relu
# cheat: 36 KB of kernel parameters
# row: race, shared-memory overflow
# rule: compile.error
# expect: compile
# naive: -; depends on the device
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
struct Table { float zeros[9000]; };
__global__ void relu_kernel(const float* x, float* y, int n, Table t) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] < 0.f ? t.zeros[i % 9000] : x[i];
}

torch::Tensor relu(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    bool lazy = false;
    Table t{};
    relu_kernel<<<(n + 255) / 256, 256>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n, t);
    
    return y;
}
"""
ext = load_inline(name="big_parameters", cpp_sources="torch::Tensor relu(torch::Tensor x);", cuda_sources=source, functions=["relu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.relu(x)
