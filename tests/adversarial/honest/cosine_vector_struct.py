# task: cosine
# style: an aligned vector struct with operators, cudaFuncSetAttribute, generic device lambda inside a templated reduction
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
struct alignas(16) Sums {
    float xy = 0, xx = 0, yy = 0;
    __device__ Sums& operator+=(const Sums& o) { xy += o.xy; xx += o.xx; yy += o.yy; return *this; }
};
__device__ Sums shuffle(const Sums& s, int d) {
    Sums o;
    o.xy = __shfl_down_sync(~0u, s.xy, d);
    o.xx = __shfl_down_sync(~0u, s.xx, d);
    o.yy = __shfl_down_sync(~0u, s.yy, d);
    return o;
}
template <int Block, class Load>
__device__ Sums block_reduce(int n, Load load, Sums* scratch) {
    Sums sums;
    for (int i = threadIdx.x; i < n; i += Block) sums += load(i);
    for (int d = 16; d; d /= 2) sums += shuffle(sums, d);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = sums;
    __syncthreads();
    if (threadIdx.x == 0) for (int w = 1; w < Block / 32; ++w) sums += scratch[w];
    return sums;
}
template <int Block>
__global__ void cosine_kernel(const float* x, const float* y, float* out, int cols) {
    extern __shared__ __align__(16) unsigned char raw[];
    x += (size_t)blockIdx.x * cols;
    y += (size_t)blockIdx.x * cols;
    const auto sums = block_reduce<Block>(cols, [=](int i) { Sums s; s.xy = x[i] * y[i]; s.xx = x[i] * x[i]; s.yy = y[i] * y[i]; return s; },
                                          reinterpret_cast<Sums*>(raw));
    if (threadIdx.x == 0) out[blockIdx.x] = sums.xy / (fmaxf(sqrtf(sums.xx), 1e-8f) * fmaxf(sqrtf(sums.yy), 1e-8f));
}
torch::Tensor cosine(torch::Tensor x, torch::Tensor y) {
    constexpr int kBlock = 128;
    const size_t bytes = kBlock / 32 * sizeof(Sums);
    auto kernel = cosine_kernel<kBlock>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    cudaFuncSetCacheConfig(kernel, cudaFuncCachePreferL1);
    auto out = torch::empty({x.size(0)}, x.options());
    kernel<<<x.size(0), kBlock, bytes>>>(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    return out;
}
"""
ext = load_inline(name="cosine_struct", cpp_sources="torch::Tensor cosine(torch::Tensor x, torch::Tensor y);", cuda_sources=source, functions=["cosine"])


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, x, y):
        x = x if x.is_contiguous() else x.contiguous()
        y = y if y.is_contiguous() else y.contiguous()
        return ext.cosine(x, y)
