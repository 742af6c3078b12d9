# task: silu
# style: lambdas inside the kernel
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void silu_kernel(const float* x, float* y, int n) {
    auto sigmoid = [](float v) { return 1.0f / (1.0f + expf(-v)); };
    auto apply = [&](int index) {
        const float v = x[index];
        y[index] = v * sigmoid(v);
    };
    // Far negative values: sigmoid underflows to 0 and v * 0 = -0, as in PyTorch.
    int index = threadIdx.x + blockIdx.x * blockDim.x;
    if (index < n) apply(index);
}

torch::Tensor forward(torch::Tensor x) {
    auto round_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
    auto input = x.contiguous();
    auto output = torch::empty_like(input);
    silu_kernel<<<round_up(input.numel(), 64), 64>>>(input.data_ptr<float>(), output.data_ptr<float>(), input.numel());
    return output;
}
"""
module = load_inline(name="silu_lambda", cpp_sources="torch::Tensor forward(torch::Tensor x);", cuda_sources=source, functions=["forward"])


class ModelNew(nn.Module):
    kernels = module  # a class attribute

    def forward(self, x):
        return self.kernels.forward(x)
