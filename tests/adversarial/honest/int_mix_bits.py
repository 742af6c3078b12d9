# task: int_mix
# style: integer arithmetic on int32
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ int32_t mix(int32_t v) {
    v ^= v >> 3;
    v *= 5;
    return v;
}

__global__ void int_mix(const int32_t* x, const int32_t* y, int32_t* out, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) out[i] = mix(x[i]) + y[i];
}

torch::Tensor int_mix_cuda(torch::Tensor x, torch::Tensor y) {
    auto a = x.contiguous();
    auto b = y.contiguous();
    auto out = torch::empty_like(a);
    int n = a.numel();
    int_mix<<<(n + 95) / 96, 96>>>(a.data_ptr<int32_t>(), b.data_ptr<int32_t>(), out.data_ptr<int32_t>(), n);
    return out;
}
"""
ext = load_inline(name="int_mix", cpp_sources="torch::Tensor int_mix_cuda(torch::Tensor x, torch::Tensor y);", cuda_sources=source, functions=["int_mix_cuda"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return ext.int_mix_cuda(x, y)
