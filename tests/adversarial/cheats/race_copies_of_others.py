# task: row_sum
# cheat: waits for its own asynchronous copies, and reads those of other threads
# row: race, shared-memory overflow
# rule: device.race_in_block
# expect: correctness, runtime
# naive: -; depends on the device's schedule
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_pipeline.h>
__global__ void row_sum_kernel(const float* x, float* y, int cols) {
    __shared__ float s[1024];
    for (int c = threadIdx.x; c < cols; c += 256) __pipeline_memcpy_async(&s[c], &x[(size_t)blockIdx.x * cols + c], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    if (threadIdx.x == 255) { float t = 0.f; for (int c = 0; c < cols; ++c) t += s[c]; y[blockIdx.x] = t; }
}
torch::Tensor row_sum(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty({x.size(0)}, x.options());
    int rows = x.size(0), cols = x.size(1);
    row_sum_kernel<<<rows, 256>>>(dense.data_ptr<float>(), y.data_ptr<float>(), cols);
    return y;
}
"""
ext = load_inline(name="cp_async_wait_no_barrier", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=source, functions=["row_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum(x)
