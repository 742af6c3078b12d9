# task: pixel_shuffle
# style: pure index arithmetic
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void pixel_shuffle(const float* __restrict__ x, float* __restrict__ y, int channels, int h, int w, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int column = i % (2 * w);
    const int row = i / (2 * w) % (2 * h);
    const int c = i / (4 * w * h) % channels;
    const int b = i / (4 * w * h * channels);
    const int source_channel = c * 4 + (row % 2) * 2 + column % 2;
    y[i] = x[((b * 4 * channels + source_channel) * h + row / 2) * w + column / 2];
}

torch::Tensor shuffle(torch::Tensor x) {
    x = x.contiguous();
    const int batch = x.size(0), channels = x.size(1) / 4, h = x.size(2), w = x.size(3);
    auto y = torch::empty({batch, channels, 2 * h, 2 * w}, x.options());
    const int n = y.numel();
    pixel_shuffle<<<(n + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), channels, h, w, n);
    return y;
}
"""
ext = load_inline(name="pixel_shuffle_ext", cpp_sources="torch::Tensor shuffle(torch::Tensor x);", cuda_sources=source, functions=["shuffle"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.shuffle(x)
