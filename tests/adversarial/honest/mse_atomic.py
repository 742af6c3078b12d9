# task: mse
# style: atomicAdd into a zeroed scalar
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void mse_kernel(const float* __restrict__ a, const float* __restrict__ b, float* total, int n) {
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        float d = a[i] - b[i];
        sum += d * d;
    }
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(0xffffffff, sum, offset);
    if ((threadIdx.x & 31) == 0) atomicAdd(total, sum / n);
}

torch::Tensor mse(torch::Tensor a, torch::Tensor b) {
    auto x = a.contiguous(), y = b.contiguous();
    auto total = torch::zeros({}, x.options());
    int n = x.numel();
    mse_kernel<<<8, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), total.data_ptr<float>(), n);
    return total;
}
"""
ext = load_inline(name="mse_atomic", cpp_sources="torch::Tensor mse(torch::Tensor a, torch::Tensor b);", cuda_sources=source, functions=["mse"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return ext.mse(x, y)
