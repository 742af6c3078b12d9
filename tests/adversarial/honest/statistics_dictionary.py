# task: statistics
# style: dictionary of outputs, one kernel writes all three
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float least(float a, float b) { return (a < b || isnan(a)) ? a : b; }
__device__ __forceinline__ float most(float a, float b) { return (a > b || isnan(a)) ? a : b; }

__global__ void statistics(const float* __restrict__ x, float* mean, float* low, float* high, int cols) {
    const float* row = x + blockIdx.x * cols;
    const int lane = threadIdx.x;
    float sum = 0.0f, small = INFINITY, big = -INFINITY;
    for (int c = lane; c < cols; c += 32) {
        sum += row[c];
        small = least(row[c], small);
        big = most(row[c], big);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
        small = least(__shfl_down_sync(0xffffffffu, small, offset), small);
        big = most(__shfl_down_sync(0xffffffffu, big, offset), big);
    }
    if (lane == 0) {
        mean[blockIdx.x] = sum / cols;
        low[blockIdx.x] = small;
        high[blockIdx.x] = big;
    }
}

void run(torch::Tensor x, torch::Tensor mean, torch::Tensor low, torch::Tensor high) {
    statistics<<<x.size(0), 32>>>(x.data_ptr<float>(), mean.data_ptr<float>(), low.data_ptr<float>(), high.data_ptr<float>(), x.size(1));
}
"""
ext = load_inline(
    name="statistics_ext",
    cpp_sources="void run(torch::Tensor x, torch::Tensor mean, torch::Tensor low, torch::Tensor high);",
    cuda_sources=source,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = {name: x.new_empty(x.shape[0]) for name in ("mean", "least", "most")}
        ext.run(x, out["mean"], out["least"], out["most"])
        return out
