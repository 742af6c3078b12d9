# task: linear
# style: a warp per output element, any number of leading dimensions
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void linear_kernel(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ y, int rows, int in, int out) {
    const int warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (warp >= rows * out) return;
    const int r = warp / out, o = warp % out;
    float sum = 0.0f;
    for (int i = lane; i < in; i += 32) sum += x[r * in + i] * w[o * in + i];
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (lane == 0) y[warp] = sum + b[o];
}

torch::Tensor linear(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    const int in = w.size(1), out = w.size(0);
    auto rows = x.reshape({-1, in}).contiguous();
    auto weight = w.contiguous();
    const int count = rows.size(0);
    auto y = torch::empty({count, out}, rows.options());
    const int warps = 4;
    linear_kernel<<<(count * out + warps - 1) / warps, warps * 32>>>(rows.data_ptr<float>(), weight.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), count, in, out);
    auto sizes = x.sizes().vec();
    sizes.back() = out;
    return y.view(sizes);
}
"""
ext = load_inline(name="linear_warp", cpp_sources="torch::Tensor linear(torch::Tensor x, torch::Tensor w, torch::Tensor b);", cuda_sources=source, functions=["linear"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(72, 50)

    def forward(self, x):
        return ext.linear(x, self.linear.weight, self.linear.bias)
