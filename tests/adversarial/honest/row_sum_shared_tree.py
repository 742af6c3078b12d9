# task: row_sum
# style: block per row, tree in static shared memory
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

const int BLOCK = 128;

__global__ void row_sum_kernel(const float* x, float* y, int cols) {
    __shared__ float partial[BLOCK];
    int tid = threadIdx.x;
    int row = blockIdx.x;
    float acc = 0;
    for (int c = tid; c < cols; c += BLOCK) {
        acc += x[row * cols + c];
    }
    partial[tid] = acc;
    __syncthreads();
    for (int s = BLOCK / 2; s > 0; s /= 2) {
        if (tid < s) {
            partial[tid] += partial[tid + s];
        }
        __syncthreads();
    }
    if (tid == 0) {
        y[row] = partial[0];
    }
}

torch::Tensor row_sum(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty({dense.size(0)}, dense.options());
    row_sum_kernel<<<dense.size(0), BLOCK>>>(dense.data_ptr<float>(), y.data_ptr<float>(), dense.size(1));
    return y;
}
"""
ext = load_inline(name="row_sum_tree", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=source, functions=["row_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum(x)
