# task: where_mask
# style: bool input, select without branches
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void select_kernel(const bool* __restrict__ mask, const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = mask[i] ? x[i] : 0.5f * y[i];
}

torch::Tensor select_values(torch::Tensor mask, torch::Tensor x, torch::Tensor y) {
    auto m = mask.contiguous(), a = x.contiguous(), b = y.contiguous();
    auto out = torch::empty_like(a);
    int n = a.numel();
    select_kernel<<<(n + 255) / 256, 256>>>(m.data_ptr<bool>(), a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""
ext = load_inline(name="where_ext", cpp_sources="torch::Tensor select_values(torch::Tensor mask, torch::Tensor x, torch::Tensor y);", cuda_sources=source, functions=["select_values"])


class ModelNew(nn.Module):
    def forward(self, mask, x, y):
        return ext.select_values(mask, x, y)
