# task: silu
# style: AT_DISPATCH over floating types and half, accumulates in float
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>

template <typename scalar_t>
__global__ void silu_kernel(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, const size_t n) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i >= n) return;
    const float v = static_cast<float>(x[i]);
    y[i] = static_cast<scalar_t>(v / (1.0f + expf(-v)));
}

torch::Tensor silu_cuda(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    const size_t n = x.numel();
    const dim3 block(256);
    const dim3 grid((n + block.x - 1) / block.x);
    auto stream = at::cuda::getCurrentCUDAStream();
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "silu_cuda", [&] {
        silu_kernel<scalar_t><<<grid, block, 0, stream>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n);
    });
    return y;
}
"""
silu_ext = load_inline(
    name="silu_ext",
    cpp_sources="torch::Tensor silu_cuda(torch::Tensor x);",
    cuda_sources=source,
    functions={"silu_cuda": "SiLU forward"},
)


def fused_silu(x: torch.Tensor) -> torch.Tensor:
    return silu_ext.silu_cuda(x)


class ModelNew(nn.Module):
    def forward(self, x):
        return fused_silu(x)
