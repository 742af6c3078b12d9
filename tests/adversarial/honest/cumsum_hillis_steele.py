# task: cumsum
# style: double-buffered scan in dynamic shared memory with a carry from chunk to chunk
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void scan_rows(const float* __restrict__ x, float* __restrict__ y, int cols) {
    extern __shared__ float buffer[];
    float* from = buffer;
    float* to = buffer + blockDim.x;
    __shared__ float carry;
    const int t = threadIdx.x;
    if (t == 0) carry = 0.0f;
    __syncthreads();
    for (int start = 0; start < cols; start += blockDim.x) {
        const int c = start + t;
        from[t] = c < cols ? x[blockIdx.x * cols + c] : 0.0f;
        __syncthreads();
        for (int offset = 1; offset < blockDim.x; offset <<= 1) {
            to[t] = t >= offset ? from[t] + from[t - offset] : from[t];
            __syncthreads();
            float* swap = from;
            from = to;
            to = swap;
        }
        if (c < cols) y[blockIdx.x * cols + c] = carry + from[t];
        __syncthreads();
        if (t == blockDim.x - 1) carry += from[t];
        __syncthreads();
    }
}

torch::Tensor cumsum(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    const int threads = 64;
    scan_rows<<<dense.size(0), threads, 2 * threads * sizeof(float)>>>(dense.data_ptr<float>(), y.data_ptr<float>(), dense.size(1));
    return y;
}
"""
ext = load_inline(name="cumsum_scan", cpp_sources="torch::Tensor cumsum(torch::Tensor x);", cuda_sources=source, functions=["cumsum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.cumsum(x)
