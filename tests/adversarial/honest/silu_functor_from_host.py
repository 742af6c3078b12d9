# task: silu
# style: a functor made on the host and called on the device, constexpr helpers and limits for both, grid from a host function of the same name as a device one
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <algorithm>

constexpr int kThreads = 128;
constexpr float kLimits[2] = {-88.0f, 88.0f};  // exp of anything between them is finite

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

template <typename T>
__host__ __device__ __forceinline__ T clip(T v, T low, T high) {
    return v < low ? low : (v > high ? high : v);
}

struct Silu {
    float low, high;
    int step;
    Silu(float low_, float high_, int blocks) : low(low_), high(high_), step(blocks * kThreads) {}
    __device__ float operator()(float v) const {
        constexpr float one = kLimits[1] / kLimits[1];
        return v / (one + expf(clip(-v, low, high)));
    }
};

float work(int64_t n) { return static_cast<float>(n) / kThreads; }

__device__ int work(int first, int n, int step) { return first < n ? ceil_div(n - first, step) : 0; }

template <typename Op>
__global__ void apply(const float* __restrict__ x, float* __restrict__ y, int n, Op op) {
    const int first = blockIdx.x * kThreads + threadIdx.x;
    const int rounds = work(first, n, op.step);
    for (int r = 0; r < rounds; ++r) {
        const int i = first + r * op.step;
        y[i] = op(x[i]);
    }
}

torch::Tensor silu(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    const int n = static_cast<int>(dense.numel());
    const int blocks = clip(static_cast<int>(work(n)) + 1, 1, 64);
    Silu op(kLimits[0], kLimits[1], blocks);
    apply<<<blocks, kThreads>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n, op);
    return y;
}
"""
ext = load_inline(name="silu_functor", cpp_sources="torch::Tensor silu(torch::Tensor x);", cuda_sources=source, functions=["silu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.silu(x)
