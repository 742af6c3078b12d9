# task: axpby
# style: a scalar argument of forward reaches the kernel
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void axpby_kernel(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out,
                             const float alpha, const float beta, const int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = alpha * x[i] + beta * y[i];
    }
}

torch::Tensor axpby(torch::Tensor x, torch::Tensor y, double alpha, double beta) {
    TORCH_CHECK(x.sizes() == y.sizes(), "shapes differ");
    auto xc = x.contiguous();
    auto yc = y.contiguous();
    auto out = torch::empty_like(xc);
    const int n = xc.numel();
    axpby_kernel<<<(n + 255) / 256, 256>>>(xc.data_ptr<float>(), yc.data_ptr<float>(), out.data_ptr<float>(),
                                          static_cast<float>(alpha), static_cast<float>(beta), n);
    return out;
}
"""
axpby_ext = load_inline(name="axpby", cpp_sources="torch::Tensor axpby(torch::Tensor x, torch::Tensor y, double alpha, double beta);", cuda_sources=source, functions=["axpby"])


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        return axpby_ext.axpby(x, y, float(alpha), 0.5)
