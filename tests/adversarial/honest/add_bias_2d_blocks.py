# task: add_bias
# style: two-dimensional blocks, parameter of the same name
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void add_bias(const float* x, const float* bias, float* y, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= rows || c >= cols) return;
    y[r * cols + c] = x[r * cols + c] + bias[c];
}

torch::Tensor add_bias_cuda(torch::Tensor x, torch::Tensor bias) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    int rows = x.size(0);
    int cols = x.size(1);
    dim3 threads(16, 16);
    dim3 blocks((cols + 15) / 16, (rows + 15) / 16);
    add_bias<<<blocks, threads>>>(x.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""
ext = load_inline(name="add_bias", cpp_sources="torch::Tensor add_bias_cuda(torch::Tensor x, torch::Tensor bias);", cuda_sources=source, functions=["add_bias_cuda"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(96))

    def forward(self, x):
        return ext.add_bias_cuda(x, self.bias)
