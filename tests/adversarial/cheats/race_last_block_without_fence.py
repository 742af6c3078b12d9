# task: row_sum
# cheat: the last block adds up what others have written, with a ticket but no __threadfence
# row: race, shared-memory overflow
# rule: device.race_between_blocks
# expect: correctness, runtime
# naive: -; depends on the device's schedule
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__device__ float partial[4096];
__global__ void row_sum_kernel(const float* x, float* y, int* ticket, int cols) {
    __shared__ float s[64]; __shared__ bool last;
    float v = 0.f;
    for (int c = blockIdx.x * 64 + threadIdx.x; c < cols; c += gridDim.x * 64) v += x[(size_t)blockIdx.y * cols + c];
    s[threadIdx.x] = v; __syncthreads();
    for (int d = 32; d > 0; d >>= 1) { if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; __syncthreads(); }
    if (threadIdx.x == 0) {
        partial[blockIdx.y * gridDim.x + blockIdx.x] = s[0];
        last = atomicAdd(&ticket[blockIdx.y], 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) { float t = 0.f; for (int b = 0; b < gridDim.x; ++b) t += partial[blockIdx.y * gridDim.x + b]; y[blockIdx.y] = t; }
}
torch::Tensor row_sum(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty({x.size(0)}, x.options());
    int rows = x.size(0), cols = x.size(1);
    auto ticket = torch::zeros({rows}, x.options().dtype(torch::kInt32)); row_sum_kernel<<<dim3(4, rows), 64>>>(dense.data_ptr<float>(), y.data_ptr<float>(), ticket.data_ptr<int>(), cols);
    return y;
}
"""
ext = load_inline(name="last_block_no_fence", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=source, functions=["row_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum(x)
