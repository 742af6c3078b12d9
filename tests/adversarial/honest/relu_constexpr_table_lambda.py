# task: relu
# style: constexpr table in constant memory, generic device lambda, launch bounds, restrict, __ldg
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>

__constant__ int kOffsets[4] = {0, 1, 2, 3};
constexpr int kThreads = 192;
template <class Op>
__global__ void __launch_bounds__(kThreads) map4(const float* __restrict__ x, float* __restrict__ y, int n, Op op) {
    const int base = (blockIdx.x * kThreads + threadIdx.x) * 4;
    if (base >= n) return;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int i = base + kOffsets[k];
        if (i < n) y[i] = op(__ldg(x + i));
    }
}
torch::Tensor run(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "float32 on the device");
    auto d = x.contiguous();
    auto y = at::empty_like(d);
    const int n = static_cast<int>(d.numel());
    constexpr int per = kThreads * 4;
    auto op = [] __device__(float v) { return v < 0.f ? 0.f : v; };
    map4<<<(n + per - 1) / per, kThreads>>>(d.data_ptr<float>(), y.data_ptr<float>(), n, op);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""
ext = load_inline(name="relu_constexpr_table_lambda", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
