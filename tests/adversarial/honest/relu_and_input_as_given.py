# task: relu_and_input
# style: hands its input on, as the reference does
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void relu_kernel(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

torch::Tensor relu(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    const int n = dense.numel();
    relu_kernel<<<(n + 127) / 128, 128>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline(name="relu_and_input", cpp_sources="torch::Tensor relu(torch::Tensor x);", cuda_sources=source, functions=["relu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.relu(x), x
