# task: scaled_rows
# style: writes into a tensor that Python makes, returns nothing, and needs all of PyTorch's headers
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
source = r"""
#include <torch/extension.h>
#include <iostream>
#include <sstream>
__global__ void affine(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 2.0f + 1.0f;
}
void affine_into(torch::Tensor x, torch::Tensor y) {
    if (x.numel() < 0) std::cout << x.options();
    affine<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
}
"""
ext = load_inline(name="affine_void", cpp_sources="void affine_into(torch::Tensor x, torch::Tensor y);", cuda_sources=source, functions=["affine_into"])
class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        ext.affine_into(x, y)
        return y
