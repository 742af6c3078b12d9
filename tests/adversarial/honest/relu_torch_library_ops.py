# task: relu
# style: TORCH_LIBRARY operator with an implementation for CUDA, no Python module
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <torch/library.h>
template <typename T>
__global__ void relu_kernel(const T* x, T* y, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const T v = x[i];
    y[i] = v < static_cast<T>(0) ? static_cast<T>(0) : v;
}
at::Tensor relu_cuda(const at::Tensor& x) {
    at::Tensor d = x.contiguous();
    at::Tensor y = at::empty_like(d);
    AT_DISPATCH_FLOATING_TYPES(d.scalar_type(), "relu", [&] {
        relu_kernel<scalar_t><<<(d.numel() + 127) / 128, 128>>>(d.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), d.numel());
    });
    return y;
}
TORCH_LIBRARY(judge_relu, m) { m.def("relu(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(judge_relu, CUDA, m) { m.impl("relu", &relu_cuda); }
"""
load_inline(name="relu_torch_library_ops", cpp_sources="", cuda_sources=source, functions=None, is_python_module=False)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.ops.judge_relu.relu(x)
