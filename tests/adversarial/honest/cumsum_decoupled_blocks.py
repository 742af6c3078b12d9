# task: cumsum
# style: a scan over warps with __shfl_up_sync and the carry in a register, lru_cache around the build, row kernel by vector of launch arguments through cudaLaunchKernel
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

from functools import lru_cache

source = r"""
#include <torch/extension.h>
__device__ __forceinline__ float warp_inclusive_scan(float v, int lane) {
    #pragma unroll
    for (int d = 1; d < warpSize; d <<= 1) {
        const float other = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d) v += other;
    }
    return v;
}
__global__ void cumsum_kernel(const float* x, float* y, int cols) {
    __shared__ float totals[8];
    __shared__ float carry;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = blockIdx.x;
    if (threadIdx.x == 0) carry = 0.0f;
    __syncthreads();
    for (int base = 0; base < cols; base += blockDim.x) {
        const int c = base + threadIdx.x;
        float v = warp_inclusive_scan(c < cols ? x[row * cols + c] : 0.0f, lane);
        if (lane == 31) totals[warp] = v;
        __syncthreads();
        if (warp == 0) {
            float t = lane < 8 ? totals[lane] : 0.0f;
            t = warp_inclusive_scan(t, lane);
            if (lane < 8) totals[lane] = t;
        }
        __syncthreads();
        v += carry + (warp > 0 ? totals[warp - 1] : 0.0f);
        if (c < cols) y[row * cols + c] = v;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) carry = v;
        __syncthreads();
    }
}
torch::Tensor cumsum(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    const float* in = dense.data_ptr<float>();
    float* out = y.data_ptr<float>();
    int cols = dense.size(1);
    void* arguments[] = {&in, &out, &cols};
    cudaLaunchKernel((const void*)cumsum_kernel, dim3(dense.size(0)), dim3(256), arguments, 0, nullptr);
    return y;
}
"""


@lru_cache(maxsize=None)
def kernels():
    return load_inline(name="cumsum_scan", cpp_sources="torch::Tensor cumsum(torch::Tensor x);", cuda_sources=source, functions=["cumsum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels().cumsum(x)
