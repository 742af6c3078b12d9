# task: softmax_moved
# style: templated warp reductions, several warps per row, fast math
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cfloat>

#define WARP_SIZE 32

template <typename T>
__device__ __forceinline__ T warp_max(T v) {
#pragma unroll
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) v = max(v, __shfl_xor_sync(0xffffffff, v, offset));
    return v;
}

template <typename T>
__device__ __forceinline__ T warp_add(T v) {
#pragma unroll
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    return v;
}

template <int THREADS>
__global__ void softmax_kernel(const float* __restrict__ x, float* __restrict__ y, int cols) {
    constexpr int WARPS = THREADS / WARP_SIZE;
    __shared__ float maxima[WARPS];
    __shared__ float sums[WARPS];
    const int lane = threadIdx.x % WARP_SIZE;
    const int warp = threadIdx.x / WARP_SIZE;
    const float* row = x + static_cast<int64_t>(blockIdx.x) * cols;
    float* out = y + static_cast<int64_t>(blockIdx.x) * cols;

    float m = -FLT_MAX;
    for (int c = threadIdx.x; c < cols; c += THREADS) m = fmaxf(m, row[c]);
    m = warp_max(m);
    if (lane == 0) maxima[warp] = m;
    __syncthreads();
    m = maxima[0];
    for (int w = 1; w < WARPS; ++w) m = fmaxf(m, maxima[w]);

    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) s += __expf(row[c] - m);
    s = warp_add(s);
    if (lane == 0) sums[warp] = s;
    __syncthreads();
    s = 0.0f;
    for (int w = 0; w < WARPS; ++w) s += sums[w];

    for (int c = threadIdx.x; c < cols; c += THREADS) out[c] = __fdividef(__expf(row[c] - m), s);
}

torch::Tensor softmax_forward(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    const int cols = static_cast<int>(x.size(-1));
    const int rows = static_cast<int>(x.numel() / cols);
    constexpr int kThreads = 128;
    softmax_kernel<kThreads><<<rows, kThreads>>>(x.data_ptr<float>(), y.data_ptr<float>(), cols);
    return y;
}
"""
softmax_ext = load_inline(
    name="softmax_block_shuffle",
    cpp_sources="torch::Tensor softmax_forward(torch::Tensor x);",
    cuda_sources=cuda_source,
    functions=["softmax_forward"],
    extra_cuda_cflags=["--use_fast_math", "-O3", "-lineinfo"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return softmax_ext.softmax_forward(x)
