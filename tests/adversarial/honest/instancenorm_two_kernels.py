# task: instancenorm
# style: statistics by one kernel, normalisation by another, workspace made in Python
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void plane_statistics(const float* x, float2* stats, int area, float eps) {
    const float* plane = x + blockIdx.x * area;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < area; i += 32) sum += plane[i];
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    const float mean = sum / area;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < area; i += 32) squares += (plane[i] - mean) * (plane[i] - mean);
    for (int o = 16; o > 0; o >>= 1) squares += __shfl_xor_sync(~0u, squares, o);
    if (threadIdx.x == 0) stats[blockIdx.x] = make_float2(mean, rsqrtf(squares / area + eps));
}

__global__ void normalize(const float* x, const float2* stats, float* y, int area, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float2 s = stats[i / area];
        y[i] = (x[i] - s.x) * s.y;
    }
}

void instance_norm(torch::Tensor x, torch::Tensor stats, torch::Tensor y, double eps) {
    const int planes = x.size(0) * x.size(1);
    const int n = x.numel(), area = n / planes;
    auto* pairs = reinterpret_cast<float2*>(stats.data_ptr<float>());
    plane_statistics<<<planes, 32>>>(x.data_ptr<float>(), pairs, area, eps);
    normalize<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), pairs, y.data_ptr<float>(), area, n);
}
"""
ext = load_inline(
    name="instance_norm_ext",
    cpp_sources="void instance_norm(torch::Tensor x, torch::Tensor stats, torch::Tensor y, double eps);",
    cuda_sources=source,
    functions=["instance_norm"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        batch, channels = x.size(0), x.size(1)
        stats = torch.empty(batch * channels, 2, device=x.device, dtype=x.dtype)
        out = torch.empty_like(x)
        ext.instance_norm(x, stats, out, 1e-5)
        return out
