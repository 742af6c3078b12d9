# task: statistics
# style: one template for three reductions, chosen by if constexpr and an enum class; functors with static members
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <limits>
#include <vector>

enum class Op { kMean, kMin, kMax };

template <Op op>
__device__ __forceinline__ float identity() {
    if constexpr (op == Op::kMean) return 0.0f;
    else if constexpr (op == Op::kMin) return std::numeric_limits<float>::infinity();
    else return -std::numeric_limits<float>::infinity();
}

template <Op op>
__device__ __forceinline__ float combine(float a, float b) {
    if constexpr (op == Op::kMean) return a + b;
    if constexpr (op == Op::kMin) return (a != a || a < b) ? a : b;
    if constexpr (op == Op::kMax) return (a != a || a > b) ? a : b;
}

template <Op op, int kWarps>
__global__ void reduce_rows(const float* __restrict__ x, float* __restrict__ out, int cols) {
    __shared__ float shared[kWarps];
    const float* row = x + static_cast<size_t>(blockIdx.x) * cols;
    float value = identity<op>();
    for (int c = threadIdx.x; c < cols; c += 32 * kWarps) value = combine<op>(value, row[c]);
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) value = combine<op>(value, __shfl_down_sync(0xffffffff, value, offset));
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0) shared[warp] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < kWarps; ++w) value = combine<op>(value, shared[w]);
        if constexpr (op == Op::kMean) value /= cols;
        out[blockIdx.x] = value;
    }
}

template <Op op>
torch::Tensor launch(const torch::Tensor& x) {
    auto out = torch::empty({x.size(0)}, x.options());
    reduce_rows<op, 4><<<x.size(0), 128>>>(x.data_ptr<float>(), out.data_ptr<float>(), static_cast<int>(x.size(1)));
    return out;
}

std::vector<torch::Tensor> statistics(torch::Tensor x) {
    return {launch<Op::kMean>(x), launch<Op::kMin>(x), launch<Op::kMax>(x)};
}
"""
header = "std::vector<torch::Tensor> statistics(torch::Tensor x);"
ext = load_inline(name="statistics_constexpr", cpp_sources=header, cuda_sources=source, functions=["statistics"])


class ModelNew(nn.Module):
    def forward(self, x):
        return dict(zip(("mean", "least", "most"), ext.statistics(x.contiguous())))
