# task: softmax
# style: order-preserving integer maximum by atomics in shared memory, bit casts, a do-while grid loop, printf never taken
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__device__ __forceinline__ unsigned key(float v) { unsigned b = __float_as_uint(v); return b & 0x80000000u ? ~b : b | 0x80000000u; }
__device__ __forceinline__ float unkey(unsigned k) { return __uint_as_float(k & 0x80000000u ? k & 0x7fffffffu : ~k); }
__global__ void softmax_rows(const float* x, float* y, int rows, int width) {
    __shared__ unsigned top;
    __shared__ float total;
    int r = blockIdx.x;
    do {
        if (threadIdx.x == 0) { top = 0u; total = 0.f; }
        __syncthreads();
        unsigned best = 0u;
        for (int c = threadIdx.x; c < width; c += blockDim.x) best = max(best, key(x[(size_t)r * width + c]));
        best = __reduce_max_sync(0xffffffffu, best);
        if ((threadIdx.x & 31) == 0) atomicMax(&top, best);
        __syncthreads();
        float m = unkey(top), s = 0.f;
        for (int c = threadIdx.x; c < width; c += blockDim.x) s += expf(x[(size_t)r * width + c] - m);
        for (int o = 16; o; o >>= 1) s += __shfl_down_sync(0xffffffffu, s, o);
        if ((threadIdx.x & 31) == 0) atomicAdd(&total, s);
        __syncthreads();
        for (int c = threadIdx.x; c < width; c += blockDim.x) y[(size_t)r * width + c] = expf(x[(size_t)r * width + c] - m) / total;
        if (width < 0) printf("never\n");
        __syncthreads();
    } while ((r += gridDim.x) < rows);
}
torch::Tensor run(torch::Tensor x) {
    auto d = x.contiguous();
    auto y = torch::empty_like(d);
    int rows = d.size(0);
    softmax_rows<<<min(rows, 5), 64>>>(d.data_ptr<float>(), y.data_ptr<float>(), rows, (int)d.size(1));
    return y;
}
"""
ext = load_inline(name="softmax_union_bits", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
