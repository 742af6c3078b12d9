# task: relu
# style: 3-D grid and block, enum class template, early return, scalar and tensor arguments, int64 indices
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

enum class Kind { kRelu, kIdentity };
template <Kind kKind>
__global__ void apply(const float* x, float* y, int64_t n) {
    const int64_t block = (static_cast<int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int64_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const int64_t i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    if (i >= n) return;
    if constexpr (kKind == Kind::kRelu) { y[i] = x[i] < 0.f ? 0.f : x[i]; } else { y[i] = x[i]; }
}
torch::Tensor run(torch::Tensor x, int64_t edge, double unused, c10::optional<torch::Tensor> out) {
    auto d = x.contiguous();
    auto y = out.has_value() ? *out : torch::empty_like(d);
    const int64_t n = d.numel();
    const dim3 block(8, 4, 2);
    const unsigned blocks = (n + 63) / 64;
    const dim3 grid((blocks + 3) / 4, 2, 2);
    apply<Kind::kRelu><<<grid, block>>>(d.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline(name="relu_3d_grid_enum", cpp_sources="torch::Tensor run(torch::Tensor x, int64_t edge, double unused, c10::optional<torch::Tensor> out);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x, 8, 0.5, None)
