# task: half_axpy
# style: half2 with __hfma2 and a scalar tail, through a templated vector type; operators undefined back
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>

__global__ void axpy(const half* __restrict__ x, const half* __restrict__ y, half* __restrict__ out, size_t n) {
    const size_t i = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * 2;
    if (i + 1 < n) {
        const half2 a = *reinterpret_cast<const half2*>(x + i), b = *reinterpret_cast<const half2*>(y + i);
        *reinterpret_cast<half2*>(out + i) = __hfma2(__float2half2_rn(2.0f), a, b);
    } else if (i < n) {
        out[i] = __hfma(__float2half(2.0f), x[i], y[i]);
    }
}

at::Tensor run(const at::Tensor& x, const at::Tensor& y) {
    auto out = at::empty_strided(x.sizes(), x.strides(), x.options());
    const size_t n = x.numel();
    axpy<<<(n + 511) / 512, 256>>>(reinterpret_cast<const half*>(x.const_data_ptr<at::Half>()),
                                   reinterpret_cast<const half*>(y.const_data_ptr<at::Half>()),
                                   reinterpret_cast<half*>(out.mutable_data_ptr<at::Half>()), n);
    return out;
}
"""
ext = load_inline(
    name="half_axpy_fma",
    cpp_sources="at::Tensor run(const at::Tensor& x, const at::Tensor& y);",
    cuda_sources=source,
    functions=["run"],
    extra_cuda_cflags=["-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF2_OPERATORS__", "-std=c++17", "-lineinfo"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return ext.run(x.contiguous(), y.contiguous())
