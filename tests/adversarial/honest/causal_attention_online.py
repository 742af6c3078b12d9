# task: causal_attention
# style: thread per query, online softmax; what comes later is never read
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void attend(const float* q, const float* k, const float* v, float* out, int length, int width) {
    const int query = blockIdx.y * blockDim.x + threadIdx.x;
    if (query >= length) return;
    const long base = (long)blockIdx.x * length * width;
    const float* mine = q + base + query * width;
    const float scale = rsqrtf((float)width);
    float most = -INFINITY, total = 0.0f, sum[64];
    for (int d = 0; d < width; ++d) sum[d] = 0.0f;
    for (int key = 0; key <= query; ++key) {
        const float* other = k + base + key * width;
        float score = 0.0f;
        for (int d = 0; d < width; ++d) score += mine[d] * other[d];
        score *= scale;
        const float next = fmaxf(most, score), old = expf(most - next), p = expf(score - next);
        total = total * old + p;
        for (int d = 0; d < width; ++d) sum[d] = sum[d] * old + p * v[base + key * width + d];
        most = next;
    }
    for (int d = 0; d < width; ++d) out[base + query * width + d] = sum[d] / total;
}

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    q = q.contiguous();
    k = k.contiguous();
    v = v.contiguous();
    const int length = q.size(2), width = q.size(3);
    TORCH_CHECK(width <= 64, "heads of at most 64");
    auto out = torch::empty_like(q);
    const dim3 grid(q.size(0) * q.size(1), (length + 31) / 32);
    attend<<<grid, 32>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), out.data_ptr<float>(), length, width);
    return out;
}
"""
ext = load_inline(name="causal_online", cpp_sources="torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v);", cuda_sources=source, functions=["attention"])


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return ext.attention(q, k, v)
