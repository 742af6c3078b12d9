# task: square_row_sum
# style: double buffering with __pipeline_memcpy_async, one warp a row
# musa: no counterpart of cp.async
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_pipeline.h>
__global__ void sums(const float* x, float* y, int rows, int width) {
    __shared__ float stage[2][32];
    const int r = blockIdx.x, lane = threadIdx.x;
    float s = 0.f;
    int slot = 0;
    const float* row = x + (size_t)r * width;
    if (lane < width) __pipeline_memcpy_async(&stage[0][lane], row + lane, sizeof(float));
    __pipeline_commit();
    for (int c = 0; c < width; c += 32, slot ^= 1) {
        const int next = c + 32 + lane;
        if (next < width) __pipeline_memcpy_async(&stage[slot ^ 1][lane], row + next, sizeof(float));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncwarp();
        if (c + lane < width) s += stage[slot][lane];
        __syncwarp();
    }
    unsigned active = __activemask();
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(active, s, o);
    if (lane == 0) y[r] = s;
}
torch::Tensor run(torch::Tensor x) {
    auto d = x.contiguous();
    auto y = torch::empty({d.size(0)}, x.options());
    sums<<<d.size(0), 32>>>(d.data_ptr<float>(), y.data_ptr<float>(), d.size(0), d.size(1));
    return y;
}
"""
ext = load_inline(name="square_row_sum_wmma_free_pipeline", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
