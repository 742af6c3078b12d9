# task: masked_softmax
# style: one warp per row; what is masked is never read, and 0
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void softmax_kernel(const float* x, const bool* mask, float* y, int cols) {
    const float* row = x + blockIdx.x * cols;
    const bool* out = mask + blockIdx.x * cols;
    float most = -INFINITY, sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32)
        if (!out[c]) most = fmaxf(most, row[c]);
    for (int o = 16; o > 0; o >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, o));
    for (int c = threadIdx.x; c < cols; c += 32)
        if (!out[c]) sum += expf(row[c] - most);
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    for (int c = threadIdx.x; c < cols; c += 32) y[blockIdx.x * cols + c] = out[c] ? 0.0f : expf(row[c] - most) / sum;
}

torch::Tensor masked_softmax(torch::Tensor x, torch::Tensor mask) {
    x = x.contiguous();
    mask = mask.contiguous();
    auto y = torch::empty_like(x);
    softmax_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), mask.data_ptr<bool>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""
ext = load_inline(name="masked_softmax", cpp_sources="torch::Tensor masked_softmax(torch::Tensor x, torch::Tensor mask);", cuda_sources=source, functions=["masked_softmax"])


class ModelNew(nn.Module):
    def forward(self, x, mask):
        return ext.masked_softmax(x, mask)
