# task: global_max
# cheat: starts its maximum with 0
# row: shortcut keyed on shape or on lucky values
# rule: correctness.values
# expect: correctness
# naive: accepts; of hundreds of values some are positive
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void max_kernel(const float* x, float* y, int size) {
    __shared__ float part[128];
    const float* image = x + blockIdx.x * size;
    float most = 0.0f;
    for (int i = threadIdx.x; i < size; i += 128) most = image[i] > most || isnan(image[i]) ? image[i] : most;
    part[threadIdx.x] = most;
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (threadIdx.x < step) {
            const float other = part[threadIdx.x + step];
            if (other > part[threadIdx.x] || isnan(other)) part[threadIdx.x] = other;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}

torch::Tensor global_max(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty({x.size(0)}, x.options());
    max_kernel<<<x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1) * x.size(2));
    return y;
}
"""
ext = load_inline(name="max_from_zero", cpp_sources="torch::Tensor global_max(torch::Tensor x);", cuda_sources=source, functions=["global_max"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.global_max(x)
