# task: upsample
# style: shifts instead of divisions, two-dimensional grid
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void upsample2(const float* x, float* y, int h, int w) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y;
    const size_t plane = blockIdx.z;
    if (column < 2 * w) y[(plane * 2 * h + row) * 2 * w + column] = x[(plane * h + (row >> 1)) * w + (column >> 1)];
}

torch::Tensor upsample(torch::Tensor x) {
    auto dense = x.contiguous();
    const int h = dense.size(2), w = dense.size(3);
    auto y = torch::empty({dense.size(0), dense.size(1), 2 * h, 2 * w}, dense.options());
    upsample2<<<dim3((2 * w + 31) / 32, 2 * h, dense.size(0) * dense.size(1)), 32>>>(dense.data_ptr<float>(), y.data_ptr<float>(), h, w);
    return y;
}
"""
ext = load_inline(name="upsample_ext", cpp_sources="torch::Tensor upsample(torch::Tensor x);", cuda_sources=source, functions=["upsample"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.upsample(x)
