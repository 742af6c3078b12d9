# task: row_sum
# cheat: the last warp adds up without __syncwarp, trusting volatile
# row: race, shared-memory overflow
# rule: device.race_in_block
# expect: correctness, runtime
# naive: -; depends on the device's schedule
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void row_sum_kernel(const float* x, float* y, int cols) {
    __shared__ float s[256];
    float v = 0.f;
    for (int c = threadIdx.x; c < cols; c += 256) v += x[(size_t)blockIdx.x * cols + c];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int d = 128; d >= 64; d >>= 1) { if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; __syncthreads(); }
    volatile float* w = s;
    if (threadIdx.x < 32) for (int d = 32; d > 0; d >>= 1) w[threadIdx.x] += w[threadIdx.x + d];
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
torch::Tensor row_sum(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty({x.size(0)}, x.options());
    int rows = x.size(0), cols = x.size(1);
    row_sum_kernel<<<rows, 256>>>(dense.data_ptr<float>(), y.data_ptr<float>(), cols);
    return y;
}
"""
ext = load_inline(name="warp_sync_volatile", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=source, functions=["row_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum(x)
