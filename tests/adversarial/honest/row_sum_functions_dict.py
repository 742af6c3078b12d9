# task: row_sum
# style: functions as a dictionary, workspace kept per shape in the module, two kernels in sequence
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void first(const float* x, float* part, int width, int pieces) {
    __shared__ float sums[4];
    int r = blockIdx.x, p = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float v = 0.f;
    for (int c = p * blockDim.x + threadIdx.x; c < width; c += pieces * blockDim.x) v += x[(size_t)r * width + c];
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(~0u, v, o);
    if (lane == 0) sums[warp] = v;
    __syncthreads();
    if (threadIdx.x == 0) part[r * pieces + p] = sums[0] + sums[1] + sums[2] + sums[3];
}
__global__ void second(const float* part, float* y, int rows, int pieces) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float v = 0.f;
    for (int p = 0; p < pieces; ++p) v += part[r * pieces + p];
    y[r] = v;
}
torch::Tensor run(torch::Tensor x, torch::Tensor part) {
    auto d = x.contiguous();
    auto y = x.new_empty({d.size(0)});
    int rows = d.size(0), width = d.size(1), pieces = part.size(1);
    first<<<dim3(rows, pieces), 128>>>(d.data_ptr<float>(), part.data_ptr<float>(), width, pieces);
    second<<<(rows + 31) / 32, 32>>>(part.data_ptr<float>(), y.data_ptr<float>(), rows, pieces);
    return y;
}
"""
ext = load_inline(name="row_sum_functions_dict", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor part);", cuda_sources=source, functions={"run": "sums of rows"})


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = {}

    def scratch(self, x):
        key = (x.shape[0], x.device)
        if key not in self.kept:
            self.kept[key] = torch.empty(x.shape[0], 3, device=x.device)
        return self.kept[key]

    def forward(self, x):
        return ext.run(x, self.scratch(x))
