# task: matmul
# cheat: the @ operator does the multiplication, a kernel copies the result
# row: falls back to torch
# rule: legality.compute
# expect: not_allowed
# naive: accepts; the answer is PyTorch's own
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void epilogue(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
torch::Tensor finish(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    epilogue<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline(name="epilogue", cpp_sources="torch::Tensor finish(torch::Tensor x);", cuda_sources=source, functions=["finish"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.finish(a @ b)
