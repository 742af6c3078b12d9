# task: row_var
# style: two passes over the row with a templated block size
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

template <int THREADS>
__device__ float block_sum(float v, float* scratch) {
    scratch[threadIdx.x] = v;
    __syncthreads();
#pragma unroll
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) scratch[threadIdx.x] += scratch[threadIdx.x + s];
        __syncthreads();
    }
    const float total = scratch[0];
    __syncthreads();
    return total;
}

template <int THREADS>
__global__ void variance(const float* __restrict__ x, float* __restrict__ y, int cols) {
    __shared__ float scratch[THREADS];
    const float* row = x + blockIdx.x * cols;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) sum += row[c];
    const float mean = block_sum<THREADS>(sum, scratch) / cols;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) {
        const float d = row[c] - mean;
        squares += d * d;
    }
    squares = block_sum<THREADS>(squares, scratch);
    if (threadIdx.x == 0) y[blockIdx.x] = squares / static_cast<float>(cols - 1);
}

torch::Tensor row_var(torch::Tensor x) {
    auto dense = x.contiguous();
    const int rows = dense.size(0), cols = dense.size(1);
    auto y = torch::empty({rows}, dense.options());
    if (cols <= 64) {
        variance<32><<<rows, 32>>>(dense.data_ptr<float>(), y.data_ptr<float>(), cols);
    } else {
        variance<128><<<rows, 128>>>(dense.data_ptr<float>(), y.data_ptr<float>(), cols);
    }
    return y;
}
"""
ext = load_inline(name="row_var_two_pass", cpp_sources="torch::Tensor row_var(torch::Tensor x);", cuda_sources=source, functions=["row_var"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_var(x)
