# task: half_axpy
# style: half2 intrinsics with a scalar tail
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__global__ void axpy_half2(const __half2* __restrict__ x, const __half2* __restrict__ y, __half2* __restrict__ out, int pairs) {
    const __half2 two = __float2half2_rn(2.0f);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += blockDim.x * gridDim.x) {
        out[i] = __hadd2(__hmul2(two, x[i]), y[i]);
    }
}

__global__ void axpy_tail(const __half* x, const __half* y, __half* out) {
    *out = __float2half(__half2float(__float2half(2.0f * __half2float(*x))) + __half2float(*y));
}

torch::Tensor axpy(torch::Tensor x, torch::Tensor y) {
    auto a = x.contiguous(), b = y.contiguous();
    auto out = torch::empty_like(a);
    const int n = a.numel();
    const __half* pa = reinterpret_cast<const __half*>(a.data_ptr<at::Half>());
    const __half* pb = reinterpret_cast<const __half*>(b.data_ptr<at::Half>());
    __half* po = reinterpret_cast<__half*>(out.data_ptr<at::Half>());
    axpy_half2<<<4, 128>>>(reinterpret_cast<const __half2*>(pa), reinterpret_cast<const __half2*>(pb), reinterpret_cast<__half2*>(po), n / 2);
    if (n % 2) axpy_tail<<<1, 1>>>(pa + n - 1, pb + n - 1, po + n - 1);
    return out;
}
"""
ext = load_inline(name="half_axpy", cpp_sources="torch::Tensor axpy(torch::Tensor x, torch::Tensor y);", cuda_sources=source, functions=["axpy"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return ext.axpy(x, y)
