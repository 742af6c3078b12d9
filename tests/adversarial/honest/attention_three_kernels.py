# task: attention
# style: scores, softmax in place on its own workspace, weighted sum
import math

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cfloat>

__global__ void scores_kernel(const float* q, const float* k, float* s, int lq, int lk, int d, float scale) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y;
    int b = blockIdx.z;
    if (j >= lk) return;
    float acc = 0.0f;
    for (int c = 0; c < d; ++c) acc += q[(b * lq + i) * d + c] * k[(b * lk + j) * d + c];
    s[(b * lq + i) * lk + j] = acc * scale;
}

__global__ void softmax_inplace(float* s, int cols) {
    float* row = s + blockIdx.x * cols;
    float m = -FLT_MAX;
    for (int c = threadIdx.x; c < cols; c += 32) m = fmaxf(m, row[c]);
    for (int o = 16; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) {
        row[c] = expf(row[c] - m);
        sum += row[c];
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    for (int c = threadIdx.x; c < cols; c += 32) row[c] /= sum;
}

__global__ void weighted_sum(const float* s, const float* v, float* out, int lq, int lk, int d) {
    int c = threadIdx.x;
    int i = blockIdx.x;
    int b = blockIdx.y;
    for (; c < d; c += blockDim.x) {
        float acc = 0.0f;
        for (int j = 0; j < lk; ++j) acc += s[(b * lq + i) * lk + j] * v[(b * lk + j) * d + c];
        out[(b * lq + i) * d + c] = acc;
    }
}

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, double scale) {
    q = q.contiguous();
    k = k.contiguous();
    v = v.contiguous();
    int b = q.size(0), lq = q.size(1), d = q.size(2), lk = k.size(1);
    auto scores = torch::empty({b, lq, lk}, q.options());
    auto out = torch::empty({b, lq, d}, q.options());
    scores_kernel<<<dim3((lk + 31) / 32, lq, b), 32>>>(q.data_ptr<float>(), k.data_ptr<float>(), scores.data_ptr<float>(), lq, lk, d, scale);
    softmax_inplace<<<b * lq, 32>>>(scores.data_ptr<float>(), lk);
    weighted_sum<<<dim3(lq, b), 32>>>(scores.data_ptr<float>(), v.data_ptr<float>(), out.data_ptr<float>(), lq, lk, d);
    return out;
}
"""
ext = load_inline(
    name="attention_three",
    cpp_sources="torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, double scale);",
    cuda_sources=source,
    functions=["attention"],
)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return ext.attention(q, k, v, 1.0 / math.sqrt(q.size(-1)))
