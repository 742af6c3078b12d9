# task: scatter_rows
# style: block per row; no row is written twice, as the order is a permutation
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void scatter(const float* x, const int64_t* order, float* out, int width) {
    for (int c = threadIdx.x; c < width; c += blockDim.x) out[order[blockIdx.x] * width + c] = x[blockIdx.x * width + c];
}

torch::Tensor scatter_rows(torch::Tensor x, torch::Tensor order) {
    x = x.contiguous();
    order = order.contiguous();
    auto out = torch::zeros_like(x);
    scatter<<<x.size(0), 64>>>(x.data_ptr<float>(), order.data_ptr<int64_t>(), out.data_ptr<float>(), x.size(1));
    return out;
}
"""
ext = load_inline(name="scatter_rows", cpp_sources="torch::Tensor scatter_rows(torch::Tensor x, torch::Tensor order);", cuda_sources=source, functions=["scatter_rows"])


class ModelNew(nn.Module):
    def forward(self, x, order):
        return ext.scatter_rows(x, order)
