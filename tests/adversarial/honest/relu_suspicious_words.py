# task: relu
# style: comments and strings full of words that a careless checker dislikes
"""We avoid torch.matmul, F.relu and at::relu here: everything is done in two passes (try one, pass two)."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

# NOTE: do not fall back to torch.nn.functional.relu; try/except would hide errors. eval() is not used either.
source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
// at::relu(x) and torch::relu(x) would be cheating; cublasSgemm is not needed
/* pass 1: load; pass 2: store -- no cudnn, no thrust::transform */
__global__ void relu_kernel(const float* x, float* y, int n) {
    const char* unused = "torch::matmul(a, b); at::softmax";
    (void)unused;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] < 0.f ? 0.f : x[i];
}

torch::Tensor custom_relu(torch::Tensor x) {
    TORCH_CHECK(x.dim() >= 1, "custom_relu: use torch::relu for scalars");
    auto xc = x.contiguous();
    auto y = torch::empty_like(xc);
    int n = xc.numel();
    relu_kernel<<<(n + 255) / 256, 256>>>(xc.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
BANNER = "exec('import os'); torch.ops.aten.relu; ctypes"
ext = load_inline(name="custom_relu", cpp_sources="torch::Tensor custom_relu(torch::Tensor x);", cuda_sources=source, functions=["custom_relu"])


class Unused(Exception):
    pass


class ModelNew(nn.Module):
    """Model with a custom kernel in place of torch.relu."""

    def __init__(self):
        super().__init__()
        self.note = "torch.relu"

    def forward(self, x):
        # pass the tensor on; torch.relu(x) is the reference
        return ext.custom_relu(x)
