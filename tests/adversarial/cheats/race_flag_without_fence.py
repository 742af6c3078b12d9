# task: row_sum
# cheat: one block waits for another's flag, which no fence keeps behind the data
# row: race, shared-memory overflow
# rule: device.race_between_blocks
# expect: correctness, runtime
# naive: -; depends on the device's schedule
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__device__ float part[4096];
__global__ void row_sum_kernel(const float* x, float* y, volatile int* flag, int cols) {
    int half = cols / 2, row = blockIdx.x / 2;
    float v = 0.f;
    int a = blockIdx.x % 2 ? half : 0, b = blockIdx.x % 2 ? cols : half;
    for (int c = a; c < b; ++c) v += x[(size_t)row * cols + c];
    if (blockIdx.x % 2 == 0) { part[row] = v; flag[row] = 1; }
    else { while (flag[row] == 0); y[row] = v + part[row]; }
}
torch::Tensor row_sum(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty({x.size(0)}, x.options());
    int rows = x.size(0), cols = x.size(1);
    auto flag = torch::zeros({rows}, x.options().dtype(torch::kInt32)); row_sum_kernel<<<rows * 2, 1>>>(dense.data_ptr<float>(), y.data_ptr<float>(), flag.data_ptr<int>(), cols);
    return y;
}
"""
ext = load_inline(name="spin_flag_no_fence", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=source, functions=["row_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum(x)
