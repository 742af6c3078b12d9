# task: bf16_rmsnorm
# style: bfloat162 loads and intrinsics; a warp a row; rsqrt in float
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float warp_sum(float v) {
    for (int mask = 16; mask; mask >>= 1) v += __shfl_xor_sync(0xffffffffu, v, mask, 32);
    return v;
}

__global__ void rmsnorm(const __nv_bfloat162* __restrict__ x, const float2* __restrict__ weight,
                        __nv_bfloat162* __restrict__ y, int rows, int pairs, float eps) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (row >= rows) return;
    float squares = 0.0f;
    for (int i = lane; i < pairs; i += 32) {
        const float2 v = __bfloat1622float2(x[row * pairs + i]);
        squares = fmaf(v.x, v.x, fmaf(v.y, v.y, squares));
    }
    const float scale = rsqrtf(warp_sum(squares) / (2 * pairs) + eps);
    for (int i = lane; i < pairs; i += 32) {
        const float2 v = __bfloat1622float2(x[row * pairs + i]), w = __ldg(weight + i);
        y[row * pairs + i] = __floats2bfloat162_rn(v.x * scale * w.x, v.y * scale * w.y);
    }
}

torch::Tensor run(torch::Tensor x, torch::Tensor weight) {
    TORCH_CHECK(x.scalar_type() == at::ScalarType::BFloat16, "bfloat16 expected, got ", x.scalar_type());
    TORCH_CHECK(x.size(-1) % 2 == 0);
    auto y = at::empty_like(x, x.options(), at::MemoryFormat::Contiguous);
    const int pairs = x.size(-1) / 2, rows = x.numel() / x.size(-1);
    rmsnorm<<<(rows + 7) / 8, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const __nv_bfloat162*>(x.data_ptr<at::BFloat16>()),
        reinterpret_cast<const float2*>(weight.data_ptr<float>()),
        reinterpret_cast<__nv_bfloat162*>(y.data_ptr<at::BFloat16>()), rows, pairs, 1e-5f);
    return y;
}
"""
ext = load_inline(name="rmsnorm_pairs", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor weight);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(132))

    def forward(self, x):
        return ext.run(x.contiguous(), self.weight)
