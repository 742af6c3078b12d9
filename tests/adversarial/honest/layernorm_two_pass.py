# task: layernorm
# style: own PYBIND11_MODULE with default arguments, dynamic shared memory, launcher with device guard
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>

template <typename scalar_t>
__global__ void layernorm_kernel(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
                                 scalar_t* __restrict__ y, const int64_t width, const float eps) {
    extern __shared__ __align__(sizeof(float)) unsigned char raw[];
    float* scratch = reinterpret_cast<float*>(raw);
    const scalar_t* row = x + blockIdx.x * width;
    scalar_t* out = y + blockIdx.x * width;

    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) sum += static_cast<float>(row[i]);
    scratch[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) scratch[threadIdx.x] += scratch[threadIdx.x + s];
        __syncthreads();
    }
    const float mean = scratch[0] / width;
    __syncthreads();

    float squares = 0.0f;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        const float d = static_cast<float>(row[i]) - mean;
        squares += d * d;
    }
    scratch[threadIdx.x] = squares;
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) scratch[threadIdx.x] += scratch[threadIdx.x + s];
        __syncthreads();
    }
    const float scale = rsqrtf(scratch[0] / width + eps);

    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        out[i] = static_cast<scalar_t>((static_cast<float>(row[i]) - mean) * scale * static_cast<float>(weight[i]) + static_cast<float>(bias[i]));
    }
}

torch::Tensor layernorm_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    const at::cuda::CUDAGuard guard(x.device());
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    const int64_t width = weight.numel();
    const int64_t rows = dense.numel() / width;
    const int threads = 64;
    AT_DISPATCH_FLOATING_TYPES(dense.scalar_type(), "layernorm_forward", ([&] {
        layernorm_kernel<scalar_t><<<rows, threads, threads * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
            dense.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), width,
            static_cast<float>(eps));
    }));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &layernorm_forward, "LayerNorm forward", py::arg("x"), py::arg("weight"), py::arg("bias"), py::arg("eps") = 1e-5);
}
"""
layernorm = load_inline(name="layernorm_ext", cpp_sources="", cuda_sources=source)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(160)

    def forward(self, x):
        return layernorm.forward(x, self.norm.weight, self.norm.bias, eps=self.norm.eps)
