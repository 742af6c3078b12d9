# task: gelu
# style: inline PTX for loads, cudaOccupancyMaxPotentialBlockSize, events around the launch whose time is thrown away
# musa: no counterpart of inline PTX
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#define CUDA_CHECK(call)                                                                              \
    do {                                                                                              \
        cudaError_t status_ = (call);                                                                 \
        if (status_ != cudaSuccess) {                                                                 \
            fprintf(stderr, "CUDA error %s at %s:%d\n", cudaGetErrorString(status_), __FILE__, __LINE__); \
            throw std::runtime_error("CUDA failure");                                                 \
        }                                                                                             \
    } while (0)

__device__ __forceinline__ float load_once(const float* p) {
    float v;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}

__global__ void gelu_kernel(const float* x, float* y, unsigned long long n) {
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n; i += step) {
        const float v = load_once(x + i);
        y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678118654752440f));
    }
}

torch::Tensor gelu(torch::Tensor x) {
    auto input = x.contiguous();
    auto y = torch::empty(input.sizes(), input.options());
    int min_grid = 0, block = 0;
    CUDA_CHECK(cudaOccupancyMaxPotentialBlockSize(&min_grid, &block, gelu_kernel, 0, 0));
    cudaDeviceProp prop;
    CUDA_CHECK(cudaGetDeviceProperties(&prop, 0));
    block = std::min(block, prop.maxThreadsPerBlock);
    const unsigned long long n = input.numel();
    const int grid = (int)std::min<unsigned long long>((n + block - 1) / block, (unsigned long long)min_grid);
    auto stream = c10::cuda::getCurrentCUDAStream().stream();
    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    CUDA_CHECK(cudaEventRecord(start, stream));
    gelu_kernel<<<grid, block, 0, stream>>>(input.data_ptr<float>(), y.data_ptr<float>(), n);
    CUDA_CHECK(cudaEventRecord(stop, stream));
    CUDA_CHECK(cudaEventSynchronize(stop));
    float milliseconds = 0.0f;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    return y;
}
"""
ext = load_inline(name="gelu_ptx", cpp_sources="torch::Tensor gelu(torch::Tensor x);", cuda_sources=source, functions=["gelu"], extra_ldflags=["-lcudart"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.op = ext

    def forward(self, x):
        return self.op.gelu(x)
