# task: rmsnorm
# style: float4 loads where width and alignment allow, templated on the vector width
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cstdint>

__device__ __forceinline__ float square(float4 v) { return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; }
__device__ __forceinline__ float square(float v) { return v * v; }
__device__ __forceinline__ float4 scale(float4 v, float s, float4 w) { return make_float4(v.x * s * w.x, v.y * s * w.y, v.z * s * w.z, v.w * s * w.w); }
__device__ __forceinline__ float scale(float v, float s, float w) { return v * s * w; }

template <typename Vector>
__global__ void rmsnorm_kernel(const Vector* __restrict__ x, const Vector* __restrict__ w, Vector* __restrict__ y, int vectors, int width, float eps) {
    const Vector* row = x + static_cast<size_t>(blockIdx.x) * vectors;
    Vector* out = y + static_cast<size_t>(blockIdx.x) * vectors;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < vectors; i += 32) sum += square(row[i]);
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    const float factor = rsqrtf(sum / width + eps);
    for (int i = threadIdx.x; i < vectors; i += 32) out[i] = scale(row[i], factor, w[i]);
}

static bool aligned(const torch::Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data_ptr()) % sizeof(float4) == 0; }

torch::Tensor rmsnorm(torch::Tensor x, torch::Tensor w, double eps) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    const int width = w.size(0);
    const int rows = dense.numel() / width;
    if (width % 4 == 0 && aligned(dense) && aligned(w) && aligned(y)) {
        rmsnorm_kernel<float4><<<rows, 32>>>(reinterpret_cast<const float4*>(dense.data_ptr<float>()), reinterpret_cast<const float4*>(w.data_ptr<float>()), reinterpret_cast<float4*>(y.data_ptr<float>()), width / 4, width, eps);
    } else {
        rmsnorm_kernel<float><<<rows, 32>>>(dense.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), width, width, eps);
    }
    return y;
}
"""
ext = load_inline(name="rmsnorm_vec", cpp_sources="torch::Tensor rmsnorm(torch::Tensor x, torch::Tensor w, double eps);", cuda_sources=source, functions=["rmsnorm"])


class ModelNew(nn.Module):
    EPSILON = 1e-6

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(132))

    def forward(self, x):
        return ext.rmsnorm(x, self.weight, self.EPSILON)
