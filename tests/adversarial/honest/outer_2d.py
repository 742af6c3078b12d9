# task: outer
# style: pointers with explicit strides, so that nothing is copied
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void outer_kernel(const float* x, int64_t sx, const float* y, int64_t sy, float* out, int rows, int cols) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    const int r = blockIdx.y;
    if (c < cols) out[(int64_t)r * cols + c] = x[r * sx] * y[c * sy];
}

torch::Tensor outer(torch::Tensor x, torch::Tensor y) {
    const int rows = x.size(0), cols = y.size(0);
    auto out = torch::empty({rows, cols}, x.options());
    outer_kernel<<<dim3((cols + 63) / 64, rows), 64>>>(x.data_ptr<float>(), x.stride(0), y.data_ptr<float>(), y.stride(0), out.data_ptr<float>(), rows, cols);
    return out;
}
"""
ext = load_inline(name="outer_ext", cpp_sources="torch::Tensor outer(torch::Tensor x, torch::Tensor y);", cuda_sources=source, functions=["outer"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return ext.outer(x, y)
