# task: softmax
# cheat: PyTorch's softmax under another name, beside a kernel that copies
# row: falls back to torch
# rule: legality.compute
# expect: not_allowed
# naive: accepts; the answer is PyTorch's own
from torch import nn
from torch import softmax as row_kernel
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void copy_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
torch::Tensor copy(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    copy_kernel<<<(n + 255) / 256, 256>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline(name="staging", cpp_sources="torch::Tensor copy(torch::Tensor x);", cuda_sources=source, functions=["copy"])


class ModelNew(nn.Module):
    def forward(self, x):
        return row_kernel(ext.copy(x), -1)
