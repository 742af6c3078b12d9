# task: batchnorm
# style: parameters and running buffers of a submodule handed to the kernel
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void batchnorm_eval(const float* __restrict__ x, const float* __restrict__ mean, const float* __restrict__ var,
                               const float* __restrict__ gamma, const float* __restrict__ beta, float* __restrict__ y,
                               int channels, int area, int n, float eps) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int c = (i / area) % channels;
    y[i] = (x[i] - mean[c]) * rsqrtf(var[c] + eps) * gamma[c] + beta[c];
}

torch::Tensor batchnorm(torch::Tensor x, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma, torch::Tensor beta, double eps) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    const int n = dense.numel();
    const int channels = dense.size(1);
    const int area = dense.size(2) * dense.size(3);
    batchnorm_eval<<<(n + 255) / 256, 256>>>(dense.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(), gamma.data_ptr<float>(), beta.data_ptr<float>(), y.data_ptr<float>(), channels, area, n, static_cast<float>(eps));
    return y;
}
"""
ext = load_inline(
    name="batchnorm_ext",
    cpp_sources="torch::Tensor batchnorm(torch::Tensor x, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma, torch::Tensor beta, double eps);",
    cuda_sources=source,
    functions=["batchnorm"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm2d(12).eval()

    def forward(self, x):
        bn = self.bn
        return ext.batchnorm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias, bn.eps)
