# task: argmax
# cheat: takes the last of several maxima
# row: shortcut keyed on shape or on lucky values
# rule: correctness.values
# expect: correctness
# naive: accepts; random values are never equal
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void argmax_kernel(const float* x, int64_t* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* r = x + row * cols;
    int best = 0;
    for (int c = 1; c < cols; ++c)
        if (r[c] >= r[best] || isnan(r[c])) best = c;
    y[row] = best;
}

torch::Tensor argmax(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty({x.size(0)}, x.options().dtype(torch::kLong));
    argmax_kernel<<<(x.size(0) + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<int64_t>(), x.size(0), x.size(1));
    return y;
}
"""
ext = load_inline(name="argmax_last", cpp_sources="torch::Tensor argmax(torch::Tensor x);", cuda_sources=source, functions=["argmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.argmax(x)
