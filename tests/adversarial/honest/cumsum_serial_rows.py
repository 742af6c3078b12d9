# task: cumsum
# style: one thread per row
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void cumsum_kernel(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float running = 0.0f;
        for (int c = 0; c < cols; c++) {
            running += x[row * cols + c];
            y[row * cols + c] = running;
        }
    }
}

torch::Tensor cumsum(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int rows = dense.size(0);
    int cols = dense.size(1);
    cumsum_kernel<<<(rows + 63) / 64, 64>>>(dense.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""
ext = load_inline(name="cumsum_serial", cpp_sources="torch::Tensor cumsum(torch::Tensor x);", cuda_sources=source, functions=["cumsum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.cumsum(x)
