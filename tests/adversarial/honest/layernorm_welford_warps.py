# task: layernorm
# style: four rows per block, a warp each, Welford merged over shuffles
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

constexpr int ROWS_PER_BLOCK = 4;

__global__ void layernorm_rows(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
                               float* __restrict__ y, int rows, int width, float eps) {
    const int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.y;
    if (row >= rows) return;
    x += row * width;
    y += row * width;

    float count = 0.f, mean = 0.f, m2 = 0.f;
    for (int c = threadIdx.x; c < width; c += 32) {
        count += 1.f;
        const float delta = x[c] - mean;
        mean += delta / count;
        m2 = fmaf(delta, x[c] - mean, m2);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
        const float n = __shfl_xor_sync(0xffffffff, count, offset);
        const float mu = __shfl_xor_sync(0xffffffff, mean, offset);
        const float s = __shfl_xor_sync(0xffffffff, m2, offset);
        const float total = count + n;
        if (total > 0.f) {
            const float delta = mu - mean;
            m2 += s + delta * delta * count * n / total;
            mean = (count * mean + n * mu) / total;
            count = total;
        }
    }
    const float scale = 1.0f / sqrtf(m2 / width + eps);
    for (int c = threadIdx.x; c < width; c += 32) y[c] = (x[c] - mean) * scale * gamma[c] + beta[c];
}

torch::Tensor layernorm(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, double eps) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    const int width = gamma.size(0);
    const int rows = dense.numel() / width;
    const dim3 block(32, ROWS_PER_BLOCK);
    layernorm_rows<<<(rows + ROWS_PER_BLOCK - 1) / ROWS_PER_BLOCK, block>>>(dense.data_ptr<float>(), gamma.data_ptr<float>(), beta.data_ptr<float>(), y.data_ptr<float>(), rows, width, (float)eps);
    return y;
}
"""
ext = load_inline(
    name="layernorm_welford",
    cpp_sources="torch::Tensor layernorm(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, double eps);",
    cuda_sources=source,
    functions=["layernorm"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(160)

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        return ext.layernorm(rows, self.norm.weight, self.norm.bias, self.norm.eps).view(x.shape)
