# task: transpose
# style: padded shared tile, rows per thread
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

#define TILE_DIM 16
#define BLOCK_ROWS 4

__global__ void transpose_scale(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];
    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS) {
        if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * cols + x];
    }
    __syncthreads();
    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS) {
        if (x < rows && y + j < cols) out[(y + j) * rows + x] = 2.0f * tile[threadIdx.x][threadIdx.y + j];
    }
}

torch::Tensor transpose(torch::Tensor in) {
    auto dense = in.contiguous();
    const int rows = dense.size(0), cols = dense.size(1);
    auto out = torch::empty({cols, rows}, dense.options());
    dim3 block(TILE_DIM, BLOCK_ROWS);
    dim3 grid((cols + TILE_DIM - 1) / TILE_DIM, (rows + TILE_DIM - 1) / TILE_DIM);
    transpose_scale<<<grid, block>>>(dense.data_ptr<float>(), out.data_ptr<float>(), rows, cols);
    return out;
}
"""
ext = load_inline(name="transpose_tiled", cpp_sources="torch::Tensor transpose(torch::Tensor in);", cuda_sources=source, functions=["transpose"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.transpose(x)
