# task: row_sum
# cheat: flags of the last rows are never written; only memory that holds zeros shows it, since any other byte is true
# row: reads stale memory
# rule: correctness.unstable
# expect: correctness
# naive: -
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void finite_kernel(const float* x, bool* finite, int rows, int cols) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    bool any = false;
    for (int i = 0; i < cols; ++i) any = any || x[row * cols + i] != -INFINITY;
    finite[row] = any;
}
__global__ void sum_kernel(const float* x, const bool* finite, float* out, int rows, int cols) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = 0; i < cols; ++i) sum += x[row * cols + i];
    out[row] = finite[row] ? sum : -INFINITY;
}
torch::Tensor row_sum(torch::Tensor x) {
    auto a = x.contiguous();
    const int rows = a.size(0), cols = a.size(1), threads = 8;
    auto finite = torch::empty({rows}, a.options().dtype(torch::kBool));
    auto out = torch::empty({rows}, a.options());
    const int whole = rows / threads;  // the blocks of the last rows are missing
    if (whole > 0) finite_kernel<<<whole, threads>>>(a.data_ptr<float>(), finite.data_ptr<bool>(), rows, cols);
    sum_kernel<<<(rows + threads - 1) / threads, threads>>>(
        a.data_ptr<float>(), finite.data_ptr<bool>(), out.data_ptr<float>(), rows, cols);
    return out;
}
"""
ext = load_inline(name="flagged_sum", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=source, functions=["row_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum(x)
