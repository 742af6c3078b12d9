# task: leaky_relu
# style: hyper-parameter kept in the module and passed to the kernel as a double
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_source = "torch::Tensor leaky_relu(torch::Tensor x, double slope);"
cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

static constexpr int kThreads = 256;

__global__ void leaky_relu_kernel(const float* __restrict__ x, float* __restrict__ y, const float slope, const int n) {
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) {
        const float v = x[i];
        y[i] = v > 0.0f ? v : v * slope;
    }
}

torch::Tensor leaky_relu(torch::Tensor x, double slope) {
    TORCH_CHECK(x.is_cuda(), "x must be on the device");
    torch::Tensor dense = x.contiguous();
    torch::Tensor y = torch::empty_like(dense);
    const int n = dense.numel();
    leaky_relu_kernel<<<(n + kThreads - 1) / kThreads, kThreads>>>(dense.data_ptr<float>(), y.data_ptr<float>(), (float)slope, n);
    return y;
}
"""

_ext = load_inline(name="leaky", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["leaky_relu"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return _ext.leaky_relu(x, self.slope)
