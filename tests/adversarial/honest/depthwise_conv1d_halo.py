# task: depthwise_conv1d
# style: tile with halo in shared memory
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

constexpr int TILE = 32;
constexpr int RADIUS = 2;
constexpr int TAPS = 2 * RADIUS + 1;

__global__ void depthwise(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ y, int channels, int length) {
    __shared__ float tile[TILE + 2 * RADIUS];
    const int plane = blockIdx.y;
    const int channel = plane % channels;
    const int start = blockIdx.x * TILE - RADIUS;
    for (int i = threadIdx.x; i < TILE + 2 * RADIUS; i += blockDim.x) {
        const int position = start + i;
        tile[i] = position >= 0 && position < length ? x[plane * length + position] : 0.0f;
    }
    __syncthreads();
    const int position = blockIdx.x * TILE + threadIdx.x;
    if (position < length) {
        float acc = b[channel];
#pragma unroll
        for (int t = 0; t < TAPS; ++t) acc += tile[threadIdx.x + t] * w[channel * TAPS + t];
        y[plane * length + position] = acc;
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    const int channels = x.size(1), length = x.size(2);
    depthwise<<<dim3((length + TILE - 1) / TILE, x.size(0) * channels), TILE>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), channels, length);
    return y;
}
"""
ext = load_inline(name="depthwise", cpp_sources="torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b);", cuda_sources=source, functions=["forward"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(6, 6, 5, padding=2, groups=6)

    def forward(self, x):
        return ext.forward(x, self.conv.weight, self.conv.bias)
