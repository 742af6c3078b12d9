# task: softmax
# style: online maximum and sum in one pass, merged over a warp
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cfloat>

__global__ void online_softmax(const float* __restrict__ x, float* __restrict__ y, int cols) {
    const int lane = threadIdx.x;
    const float* row = x + blockIdx.x * (size_t)cols;
    float* out = y + blockIdx.x * (size_t)cols;
    float m = -FLT_MAX, d = 0.0f;
    for (int c = lane; c < cols; c += 32) {
        const float v = row[c];
        const float bigger = fmaxf(m, v);
        d = d * expf(m - bigger) + expf(v - bigger);
        m = bigger;
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        const float other_m = __shfl_xor_sync(0xffffffff, m, offset);
        const float other_d = __shfl_xor_sync(0xffffffff, d, offset);
        const float bigger = fmaxf(m, other_m);
        d = d * expf(m - bigger) + other_d * expf(other_m - bigger);
        m = bigger;
    }
    const float inverse = 1.0f / d;
    for (int c = lane; c < cols; c += 32) out[c] = expf(row[c] - m) * inverse;
}

torch::Tensor softmax(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    const int cols = dense.size(-1);
    online_softmax<<<dense.numel() / cols, 32>>>(dense.data_ptr<float>(), y.data_ptr<float>(), cols);
    return y;
}
"""
ext = load_inline(name="softmax_online", cpp_sources="torch::Tensor softmax(torch::Tensor x);", cuda_sources=source, functions=["softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.softmax(x)
