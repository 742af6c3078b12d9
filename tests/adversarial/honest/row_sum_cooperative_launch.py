# task: row_sum
# style: one cooperative launch over as many blocks as are resident, grid.sync() between partial sums and their sum
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cooperative_groups.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/cuda/CUDAContext.h>
namespace cg = cooperative_groups;

__global__ void gsum(const float* __restrict__ x, float* partial, float* out, int rows, int cols) {
    cg::grid_group grid = cg::this_grid();
    extern __shared__ float smem[];
    __shared__ int marker;
    if (threadIdx.x == 0) marker = blockIdx.x;
    // stage 1: partial sums per (block, row)
    for (int r = 0; r < rows; r++) {
        float s = 0.f;
        for (int c = grid.thread_rank(); c < cols; c += grid.size()) s += x[r * cols + c];
        smem[threadIdx.x] = s;
        __syncthreads();
        for (int o = blockDim.x / 2; o > 0; o >>= 1) { if (threadIdx.x < o) smem[threadIdx.x] += smem[threadIdx.x + o]; __syncthreads(); }
        if (threadIdx.x == 0) partial[r * gridDim.x + blockIdx.x] = smem[0];
        __syncthreads();
    }
    grid.sync();
    if (marker != blockIdx.x) return;
    for (int r = grid.thread_rank(); r < rows; r += grid.size()) {
        float s = 0.f;
        for (int b = 0; b < gridDim.x; b++) s += partial[r * gridDim.x + b];
        out[r] = s;
    }
}

torch::Tensor row_sum(torch::Tensor x) {
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    x = x.contiguous();
    int rows = x.size(0), cols = x.size(1);
    auto out = torch::empty({rows}, x.options());
    const int threads = 128;
    int per_sm = 0, sms = 0, dev = 0;
    cudaGetDevice(&dev);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, gsum, threads, threads * sizeof(float));
    int blocks = std::max(1, std::min(per_sm * sms, (cols + threads - 1) / threads));
    auto partial = torch::empty({rows, blocks}, x.options());
    const float* xp = x.data_ptr<float>(); float* pp = partial.data_ptr<float>(); float* op = out.data_ptr<float>();
    void* args[] = {(void*)&xp, (void*)&pp, (void*)&op, (void*)&rows, (void*)&cols};
    C10_CUDA_CHECK(cudaLaunchCooperativeKernel((void*)gsum, dim3(blocks), dim3(threads), args, threads * sizeof(float), at::cuda::getCurrentCUDAStream()));
    return out;
}
"""
ext = load_inline(name="row_sum_coop", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=source, functions=["row_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum(x)
