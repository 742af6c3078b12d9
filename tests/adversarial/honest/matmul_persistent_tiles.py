# task: matmul
# style: persistent blocks that take tiles from an atomic counter, cleared with cudaMemsetAsync; grid from the occupancy calculator
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

template <int TILE>
__global__ void __launch_bounds__(TILE * TILE) persistent_matmul(
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k, int* next) {
    __shared__ float as[TILE][TILE + 1], bs[TILE][TILE + 1];
    __shared__ int tile;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int tiles_n = (n + TILE - 1) / TILE, tiles = tiles_n * ((m + TILE - 1) / TILE);
    while (true) {
        if (tx == 0 && ty == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        const int mine = tile;
        __syncthreads();
        if (mine >= tiles) return;
        const int row = mine / tiles_n * TILE + ty, col = mine % tiles_n * TILE + tx;
        float sum = 0.0f;
        for (int k0 = 0; k0 < k; k0 += TILE) {
            as[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0.0f;
            bs[ty][tx] = k0 + ty < k && col < n ? b[(k0 + ty) * n + col] : 0.0f;
            __syncthreads();
#pragma unroll
            for (int i = 0; i < TILE; ++i) sum += as[ty][i] * bs[i][tx];
            __syncthreads();
        }
        if (row < m && col < n) c[row * n + col] = sum;
    }
}

torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
    const at::cuda::CUDAGuard guard(a.device());
    auto stream = at::cuda::getCurrentCUDAStream();
    constexpr int kTile = 16;
    const int m = a.size(0), k = a.size(1), n = b.size(1);
    auto c = torch::empty({m, n}, a.options());
    auto next = torch::empty({1}, a.options().dtype(at::kInt));
    cudaMemsetAsync(next.data_ptr(), 0, sizeof(int), stream.stream());
    int blocks_per_sm = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_sm, persistent_matmul<kTile>, kTile * kTile, 0);
    const auto* properties = at::cuda::getCurrentDeviceProperties();
    const int tiles = ((m + kTile - 1) / kTile) * ((n + kTile - 1) / kTile);
    const int grid = std::min(tiles, blocks_per_sm * properties->multiProcessorCount);
    persistent_matmul<kTile><<<grid, dim3(kTile, kTile), 0, stream>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, k, next.data_ptr<int>());
    return c;
}
"""
ext = load_inline(
    name="matmul_persistent",
    cpp_sources="torch::Tensor matmul(torch::Tensor a, torch::Tensor b);",
    cuda_sources=source,
    functions=["matmul"],
)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        assert a.is_cuda and b.is_cuda
        return ext.matmul(a.contiguous(), b.contiguous())
