# task: gemm_groupnorm_hardtanh
# style: tiled GEMM with bias, then a warp per group that normalises in place and clamps with fminf(fmaxf(v, lo), hi), which makes numbers of NaNs
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#define TILE 16
__global__ void gemm_bias(const float* A, const float* W, const float* bias, float* C, int M, int N, int K) {
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.f;
    for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
        int ka = t * TILE + threadIdx.x;
        As[threadIdx.y][threadIdx.x] = (row < M && ka < K) ? A[row * K + ka] : 0.f;
        int nb = blockIdx.x * TILE + threadIdx.y;
        Bs[threadIdx.x][threadIdx.y] = (nb < N && ka < K) ? W[nb * K + ka] : 0.f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < TILE; ++k) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = acc + bias[col];
}
__inline__ __device__ float warpReduceSum(float val) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2) val += __shfl_down_sync(0xffffffff, val, offset);
    return val;
}
__global__ void gn_hardtanh(float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta, int C, int G, float eps, float lo, float hi) {
    const int n = blockIdx.x / G, g = blockIdx.x % G, D = C / G;
    float* p = x + (size_t)n * C + g * D;
    float s = 0.f, ss = 0.f;
    for (int i = threadIdx.x; i < D; i += 32) s += p[i];
    s = warpReduceSum(s);
    float mean = __shfl_sync(0xffffffff, s, 0) / D;
    for (int i = threadIdx.x; i < D; i += 32) { float d = p[i] - mean; ss += d * d; }
    ss = warpReduceSum(ss);
    float inv = rsqrtf(__shfl_sync(0xffffffff, ss, 0) / D + eps);
    for (int i = threadIdx.x; i < D; i += 32) {
        int c = g * D + i;
        float v = (p[i] - mean) * inv * gamma[c] + beta[c];
        p[i] = fminf(fmaxf(v, lo), hi);
    }
}
torch::Tensor gemm_gn_hardtanh_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor gamma, torch::Tensor beta, int64_t groups, double eps, double lo, double hi) {
    int M = x.size(0), K = x.size(1), N = w.size(0);
    auto out = torch::empty({M, N}, x.options());
    dim3 block(TILE, TILE);
    dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
    gemm_bias<<<grid, block>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), M, N, K);
    gn_hardtanh<<<M * groups, 32>>>(out.data_ptr<float>(), gamma.data_ptr<float>(), beta.data_ptr<float>(), N, (int)groups, (float)eps, static_cast<float>(lo), static_cast<float>(hi));
    return out;
}
"""
cpp = "torch::Tensor gemm_gn_hardtanh_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor gamma, torch::Tensor beta, int64_t groups, double eps, double lo, double hi);"
fused = load_inline(name="gemm_gn_hardtanh", cpp_sources=cpp, cuda_sources=src, functions=["gemm_gn_hardtanh_cuda"], verbose=False)
class ModelNew(nn.Module):
    def __init__(self, features, out_features, groups, low, high):
        super().__init__()
        self.gemm = nn.Linear(features, out_features)
        self.group_norm = nn.GroupNorm(groups, out_features)
        self.hardtanh = nn.Hardtanh(min_val=low, max_val=high)
    def forward(self, x):
        return fused.gemm_gn_hardtanh_cuda(x.contiguous(), self.gemm.weight, self.gemm.bias, self.group_norm.weight, self.group_norm.bias, self.group_norm.num_groups, self.group_norm.eps, self.hardtanh.min_val, self.hardtanh.max_val)
