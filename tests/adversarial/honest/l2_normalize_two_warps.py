# task: l2_normalize
# style: block of two warps per row, shared partials, restrict pointers
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void l2_normalize(const float* __restrict__ x, float* __restrict__ y, int cols) {
    __shared__ float halves[2];
    const float* row = x + blockIdx.x * cols;
    float sum = 0.f;
    for (int c = threadIdx.x; c < cols; c += 64) sum = fmaf(row[c], row[c], sum);
    for (int delta = 16; delta >= 1; delta /= 2) sum += __shfl_down_sync(0xffffffff, sum, delta);
    if (threadIdx.x % 32 == 0) halves[threadIdx.x / 32] = sum;
    __syncthreads();
    const float length = sqrtf(halves[0] + halves[1]) + 1e-6f;
    for (int c = threadIdx.x; c < cols; c += 64) y[blockIdx.x * cols + c] = row[c] / length;
}

torch::Tensor run(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    l2_normalize<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""
ext = load_inline(name="l2_normalize", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
