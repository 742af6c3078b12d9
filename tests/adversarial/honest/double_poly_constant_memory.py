# task: double_poly
# style: constant memory filled from the host, double precision
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

constexpr int DEGREE = 3;
__constant__ double coefficients[DEGREE + 1];

__global__ void horner(const double* __restrict__ x, double* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        double value = coefficients[0];
#pragma unroll
        for (int k = 1; k <= DEGREE; ++k) value = value * x[i] + coefficients[k];
        y[i] = value;
    }
}

torch::Tensor poly(torch::Tensor x) {
    const double host[DEGREE + 1] = {0.25, -1.5, 0.75, 2.0};
    cudaMemcpyToSymbol(coefficients, host, sizeof(host));
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    horner<<<(n + 127) / 128, 128>>>(dense.data_ptr<double>(), y.data_ptr<double>(), n);
    return y;
}
"""
ext = load_inline(name="poly", cpp_sources="torch::Tensor poly(torch::Tensor x);", cuda_sources=source, functions=["poly"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.poly(x)
