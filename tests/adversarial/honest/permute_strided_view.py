# task: permute
# style: a permuted view in Python, strides read by the kernel
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

struct Strides {
    int64_t s[3];
};

__global__ void strided_copy(const float* x, Strides strides, float* y, int d1, int d2, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int c = i % d2;
    const int b = i / d2 % d1;
    const int a = i / (d2 * d1);
    y[i] = x[a * strides.s[0] + b * strides.s[1] + c * strides.s[2]] + 1.0f;
}

torch::Tensor add_one(torch::Tensor view) {
    auto y = torch::empty(view.sizes(), view.options());
    Strides strides;
    for (int d = 0; d < 3; ++d) strides.s[d] = view.stride(d);
    const int n = view.numel();
    strided_copy<<<(n + 127) / 128, 128>>>(view.data_ptr<float>(), strides, y.data_ptr<float>(), view.size(1), view.size(2), n);
    return y;
}
"""
ext = load_inline(name="strided_copy", cpp_sources="torch::Tensor add_one(torch::Tensor view);", cuda_sources=source, functions=["add_one"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.add_one(x.permute(2, 0, 1))
