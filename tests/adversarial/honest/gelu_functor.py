# task: gelu
# style: functor passed as a template parameter, exact erf
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <math.h>

struct Gelu {
    __device__ __forceinline__ float operator()(float x) const {
        return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    }
};

template <typename Op>
__global__ void map_kernel(const float* __restrict__ x, float* __restrict__ y, int n, Op op) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = op(x[i]);
    }
}

template <typename Op>
torch::Tensor map_tensor(torch::Tensor x, Op op) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    const int n = static_cast<int>(dense.numel());
    const int threads = 192;
    map_kernel<Op><<<(n + threads - 1) / threads, threads>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n, op);
    return y;
}

torch::Tensor gelu(torch::Tensor x) { return map_tensor(x, Gelu()); }
"""
ops = load_inline(name="gelu_functor", cpp_sources="torch::Tensor gelu(torch::Tensor x);", cuda_sources=source, functions=["gelu"])


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, x):
        return ops.gelu(x)
