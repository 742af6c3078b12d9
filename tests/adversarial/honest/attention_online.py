# task: attention
# style: one pass over the keys with a running maximum, a warp per query
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cfloat>

constexpr int MAX_D = 64;

__global__ void attention_online(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v, float* __restrict__ out, int length, int d) {
    __shared__ float query[MAX_D];
    const int lane = threadIdx.x;
    const size_t batch = blockIdx.y;
    q += (batch * length + blockIdx.x) * d;
    k += batch * length * d;
    v += batch * length * d;
    out += (batch * length + blockIdx.x) * d;

    const float scale = rsqrtf(static_cast<float>(d));
    for (int c = lane; c < d; c += 32) query[c] = q[c] * scale;
    __syncwarp();

    float acc[MAX_D / 32] = {0.0f};
    float m = -FLT_MAX, l = 0.0f;
    for (int j = 0; j < length; ++j) {
        float s = 0.0f;
        for (int c = lane; c < d; c += 32) s += query[c] * k[j * d + c];
        for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
        const float bigger = fmaxf(m, s);
        const float keep = expf(m - bigger);
        const float p = expf(s - bigger);
        l = l * keep + p;
        for (int i = 0, c = lane; c < d; ++i, c += 32) acc[i] = acc[i] * keep + p * v[j * d + c];
        m = bigger;
    }
    for (int i = 0, c = lane; c < d; ++i, c += 32) out[c] = acc[i] / l;
}

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    TORCH_CHECK(q.size(-1) <= MAX_D, "head dimension at most ", MAX_D);
    auto qc = q.contiguous(), kc = k.contiguous(), vc = v.contiguous();
    auto out = torch::empty_like(qc);
    const int length = qc.size(1), d = qc.size(2);
    attention_online<<<dim3(length, qc.size(0)), 32>>>(qc.data_ptr<float>(), kc.data_ptr<float>(), vc.data_ptr<float>(), out.data_ptr<float>(), length, d);
    return out;
}
"""
ext = load_inline(name="attention_online", cpp_sources="torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v);", cuda_sources=source, functions=["attention"])


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return ext.attention(q, k, v)
