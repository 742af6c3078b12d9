# task: bmm
# cheat: torch.einsum hidden in functools.partial
# row: falls back to torch
# rule: legality.compute
# expect: not_allowed
# naive: accepts; the answer is PyTorch's own
import functools

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void store(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
torch::Tensor stored(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    store<<<(n + 255) / 256, 256>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline(name="store_bmm", cpp_sources="torch::Tensor stored(torch::Tensor x);", cuda_sources=source, functions=["stored"])
batched_tile_kernel = functools.partial(torch.einsum, "bik,bkj->bij")


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.stored(batched_tile_kernel(a, b))
