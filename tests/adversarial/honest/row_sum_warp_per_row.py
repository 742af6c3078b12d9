# task: row_sum
# style: one warp per row, shuffle reduction
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

#define FULL_MASK 0xffffffff

__device__ __forceinline__ float warp_sum(float v) {
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_down_sync(FULL_MASK, v, offset);
    return v;
}

__global__ void row_sum_kernel(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (warp >= rows) return;  // whole warps leave, so the mask stays full
    float sum = 0.0f;
    for (int c = lane; c < cols; c += 32) sum += x[warp * cols + c];
    sum = warp_sum(sum);
    if (lane == 0) y[warp] = sum;
}

torch::Tensor row_sum(torch::Tensor x) {
    auto dense = x.contiguous();
    const int rows = dense.size(0), cols = dense.size(1);
    auto y = torch::empty({rows}, dense.options());
    const int warps_per_block = 4;
    row_sum_kernel<<<(rows + warps_per_block - 1) / warps_per_block, warps_per_block * 32>>>(dense.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""
ext = load_inline(name="row_sum_warp", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=source, functions=["row_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum(x)
