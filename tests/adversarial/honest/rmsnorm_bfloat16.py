# task: bf16_rmsnorm
# style: bfloat16 in and out, float inside
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

__global__ void rmsnorm_bf16(const __nv_bfloat16* __restrict__ x, const float* __restrict__ w, __nv_bfloat16* __restrict__ y, int width, float eps) {
    __shared__ float partial[4];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const __nv_bfloat16* row = x + blockIdx.x * width;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        const float v = __bfloat162float(row[c]);
        sum += v * v;
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    sum = partial[0] + partial[1] + partial[2] + partial[3];
    const float factor = rsqrtf(sum / width + eps);
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        y[blockIdx.x * width + c] = __float2bfloat16(__bfloat162float(row[c]) * factor * w[c]);
    }
}

torch::Tensor rmsnorm(torch::Tensor x, torch::Tensor w) {
    TORCH_CHECK(x.scalar_type() == torch::kBFloat16, "bfloat16 expected");
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    const int width = w.numel();
    rmsnorm_bf16<<<dense.numel() / width, 128>>>(reinterpret_cast<const __nv_bfloat16*>(dense.data_ptr<at::BFloat16>()), w.data_ptr<float>(),
                                                 reinterpret_cast<__nv_bfloat16*>(y.data_ptr<at::BFloat16>()), width, 1e-5f);
    return y;
}
"""
ext = load_inline(name="rmsnorm_bf16", cpp_sources="torch::Tensor rmsnorm(torch::Tensor x, torch::Tensor w);", cuda_sources=source, functions=["rmsnorm"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(132))

    def forward(self, x):
        return ext.rmsnorm(x, self.weight)
