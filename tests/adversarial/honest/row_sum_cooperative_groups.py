# task: row_sum
# style: cooperative groups, tiles of 32 and block synchronisation
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cooperative_groups.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void row_sum_kernel(const float* __restrict__ x, float* __restrict__ y, int cols) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    __shared__ float partial[32];

    float sum = 0.0f;
    for (int c = block.thread_rank(); c < cols; c += block.size()) sum += x[blockIdx.x * cols + c];
    for (int offset = warp.size() / 2; offset > 0; offset /= 2) sum += warp.shfl_down(sum, offset);

    const int warp_index = block.thread_rank() / 32;
    if (warp.thread_rank() == 0) partial[warp_index] = sum;
    block.sync();

    if (warp_index == 0) {
        sum = warp.thread_rank() < block.size() / 32 ? partial[warp.thread_rank()] : 0.0f;
        for (int offset = 16; offset > 0; offset /= 2) sum += warp.shfl_down(sum, offset);
        if (warp.thread_rank() == 0) y[blockIdx.x] = sum;
    }
}

torch::Tensor row_sum(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty(x.size(0), x.options());
    row_sum_kernel<<<x.size(0), 96>>>(x.data_ptr<float>(), y.data_ptr<float>(), static_cast<int>(x.size(1)));
    return y;
}
"""
ext = load_inline(name="row_sum_cg", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=source, functions=["row_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum(x)
