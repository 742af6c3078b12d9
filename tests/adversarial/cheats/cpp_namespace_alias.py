# task: matmul
# cheat: at:: behind a namespace alias and a macro
# row: at::/torch:: compute inside the C++
# rule: runtime.operator
# expect: not_allowed
# naive: accepts; the answer is PyTorch's own
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
namespace tiles = at;
#define JOIN(a, b) a##b
#define GEMM JOIN(mat, mul)
__global__ void touch(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
torch::Tensor gemm(torch::Tensor a, torch::Tensor b) {
    auto c = tiles::GEMM(a, b);
    auto out = torch::empty_like(c);
    int n = c.numel();
    touch<<<(n + 255) / 256, 256>>>(c.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""
ext = load_inline(name="gemm_alias", cpp_sources="torch::Tensor gemm(torch::Tensor a, torch::Tensor b);", cuda_sources=source, functions=["gemm"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.gemm(a, b)
