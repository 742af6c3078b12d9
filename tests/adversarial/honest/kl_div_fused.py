# task: kl_div
# style: one warp per row does both softmaxes, then a mean in double
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cfloat>

__device__ float warp_max(float v) {
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    return v;
}

__device__ float warp_sum(float v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// log of the sum of exponentials, relative to the largest value
__device__ float log_sum(const float* row, int cols, float most) {
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) s += expf(row[c] - most);
    return logf(warp_sum(s));
}

__device__ float row_max(const float* row, int cols) {
    float m = -FLT_MAX;
    for (int c = threadIdx.x; c < cols; c += 32) m = fmaxf(m, row[c]);
    return warp_max(m);
}

__global__ void kl_kernel(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ rows_out, int cols) {
    const float* a = x + blockIdx.x * cols;
    const float* b = y + blockIdx.x * cols;
    const float ma = row_max(a, cols), mb = row_max(b, cols);
    const float la = log_sum(a, cols, ma), lb = log_sum(b, cols, mb);
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) {
        const float log_q = a[c] - ma - la;
        const float log_p = b[c] - mb - lb;
        const float p = expf(log_p);
        sum += p > 0.0f || isnan(p) ? p * (log_p - log_q) : 0.0f;
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0) rows_out[blockIdx.x] = sum;
}

__global__ void average(const float* in, float* out, int rows) {
    double total = 0.0;
    for (int r = 0; r < rows; ++r) total += in[r];
    *out = static_cast<float>(total / rows);
}

torch::Tensor kl(torch::Tensor x, torch::Tensor y) {
    x = x.contiguous();
    y = y.contiguous();
    const int rows = x.size(0), cols = x.size(1);
    auto per_row = torch::empty({rows}, x.options());
    auto out = torch::empty({}, x.options());
    kl_kernel<<<rows, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), per_row.data_ptr<float>(), cols);
    average<<<1, 1>>>(per_row.data_ptr<float>(), out.data_ptr<float>(), rows);
    return out;
}
"""
ext = load_inline(name="kl_fused", cpp_sources="torch::Tensor kl(torch::Tensor x, torch::Tensor y);", cuda_sources=source, functions=["kl"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return ext.kl(x, y)
