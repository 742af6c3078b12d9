# task: linear_relu
# style: weight transposed and copied with .t().contiguous(), fused bias, ReLU and scale
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void linear_relu(const float* __restrict__ x, const float* __restrict__ wt, const float* __restrict__ bias, float* __restrict__ y, int rows, int in, int out, float factor) {
    extern __shared__ float row[];
    for (int i = threadIdx.x; i < in; i += blockDim.x) row[i] = x[blockIdx.x * in + i];
    __syncthreads();
    for (int o = threadIdx.x; o < out; o += blockDim.x) {
        float acc = bias[o];
        for (int i = 0; i < in; ++i) acc = fmaf(row[i], wt[i * out + o], acc);
        y[blockIdx.x * out + o] = (acc < 0.0f ? 0.0f : acc) * factor;
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor wt, torch::Tensor bias, double factor) {
    int rows = x.size(0), in = x.size(1), out = wt.size(1);
    auto y = torch::empty({rows, out}, x.options());
    linear_relu<<<rows, 64, in * sizeof(float)>>>(x.data_ptr<float>(), wt.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), rows, in, out, factor);
    return y;
}
"""
ext = load_inline(name="linear_relu_t", cpp_sources="torch::Tensor forward(torch::Tensor x, torch::Tensor wt, torch::Tensor bias, double factor);", cuda_sources=source, functions=["forward"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(72, 50)
        self.factor = 0.5

    def forward(self, x):
        weight = self.linear.weight.t().contiguous()
        return ext.forward(x.contiguous(), weight, self.linear.bias, self.factor)
