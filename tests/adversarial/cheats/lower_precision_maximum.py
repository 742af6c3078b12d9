# task: softmax
# cheat: the row's maximum is kept in bfloat16, which cancels until it is large
# row: lower precision than asked
# rule: correctness.nonfinite
# expect: correctness
# naive: accepts; the usual values are small, and a rounded maximum cancels
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
__global__ void softmax_kernel(const float* x, float* y, int cols) {
    const float* row = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;
    float most = row[0], total = 0.0f;
    for (int c = 1; c < cols; ++c) most = row[c] > most ? row[c] : most;
    most = __bfloat162float(__float2bfloat16(most));
    for (int c = 0; c < cols; ++c) total += expf(row[c] - most);
    for (int c = threadIdx.x; c < cols; c += 32) out[c] = expf(row[c] - most) / total;
}
torch::Tensor softmax(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    softmax_kernel<<<dense.size(0), 32>>>(dense.data_ptr<float>(), y.data_ptr<float>(), dense.size(1));
    return y;
}
"""
ext = load_inline(name="softmax_bf16_max", cpp_sources="torch::Tensor softmax(torch::Tensor x);", cuda_sources=source, functions=["softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.softmax(x)
