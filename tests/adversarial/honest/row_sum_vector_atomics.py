# task: row_sum
# style: grid group for ranks, atomics on pairs of floats, a table of launchers in a map whose header PyTorch brings along
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Even and odd columns are summed beside each other.
__global__ void sum_pairs(const float* __restrict__ x, float2* __restrict__ sums, int rows, int cols) {
    cg::grid_group grid = cg::this_grid();
    const int64_t pairs = (cols + 1) / 2;
    for (int64_t i = grid.thread_rank(); i < rows * pairs; i += grid.size()) {
        const int row = i / pairs, c = 2 * (i % pairs);
        const float first = x[(size_t)row * cols + c];
        const float second = c + 1 < cols ? x[(size_t)row * cols + c + 1] : 0.0f;
        atomicAdd(&sums[row], make_float2(first, second));
    }
}
__global__ void join_pairs(const float2* __restrict__ sums, float* __restrict__ y, int rows) {
    const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) y[row] = sums[row].x + sums[row].y;
}

using Launcher = std::function<void(const float*, float2*, int, int)>;
static const std::unordered_map<int, Launcher>& launchers() {
    static const std::unordered_map<int, Launcher> table = {
        {64, [](const float* x, float2* s, int r, int c) { sum_pairs<<<2, 64>>>(x, s, r, c); }},
        {256, [](const float* x, float2* s, int r, int c) { sum_pairs<<<4, 256>>>(x, s, r, c); }},
    };
    return table;
}

torch::Tensor row_sum(torch::Tensor x) {
    const int rows = x.size(0), cols = x.size(1);
    auto sums = torch::zeros({rows, 2}, x.options());
    auto y = torch::empty({rows}, x.options());
    auto* pairs = reinterpret_cast<float2*>(sums.data_ptr<float>());
    launchers().at(x.numel() < 1024 ? 64 : 256)(x.data_ptr<float>(), pairs, rows, cols);
    join_pairs<<<(rows + 127) / 128, 128>>>(pairs, y.data_ptr<float>(), rows);
    return y;
}
"""
ext = load_inline(name="row_sum_pairs", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=source, functions=["row_sum"], extra_cuda_cflags=["-O3", "-arch=sm_90"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum(x.contiguous())
