# task: row_sum
# style: partial sums by shuffles, one atomic a warp, output zeroed by cudaMemsetAsync, 2-D grid
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
__global__ void partial(const float* x, float* y, int rows, int width) {
    for (int r = blockIdx.y; r < rows; r += gridDim.y) {
        int c = blockIdx.x * blockDim.x + threadIdx.x;
        float v = c < width ? x[(size_t)r * width + c] : 0.f;
        for (int lane = 16; lane; lane >>= 1) v += __shfl_xor_sync(0xffffffffu, v, lane);
        if ((threadIdx.x & 31) == 0) atomicAdd(y + r, v);
    }
}
torch::Tensor run(torch::Tensor x) {
    auto d = x.contiguous();
    auto y = torch::empty({d.size(0)}, d.options());
    int rows = d.size(0), width = d.size(1);
    C10_CUDA_CHECK(cudaMemsetAsync(y.data_ptr(), 0, rows * sizeof(float), 0));
    dim3 grid((width + 63) / 64, rows < 4 ? rows : 4);
    partial<<<grid, dim3(64)>>>(d.data_ptr<float>(), y.data_ptr<float>(), rows, width);
    return y;
}
"""
ext = load_inline(name="row_sum_atomics_scratch", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
