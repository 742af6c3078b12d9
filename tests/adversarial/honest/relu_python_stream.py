# task: relu
# style: torch.cuda.Stream in Python, used correctly on both sides
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void relu_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] < 0.f ? 0.f : x[i];
}

void relu_into(torch::Tensor x, torch::Tensor y) {
    int n = x.numel();
    relu_kernel<<<(n + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
}
"""
ext = load_inline(name="relu_into", cpp_sources="void relu_into(torch::Tensor x, torch::Tensor y);", cuda_sources=source, functions=["relu_into"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        current = torch.cuda.current_stream()
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            ext.relu_into(x, y)
        current.wait_stream(self.side)
        y.record_stream(self.side)
        return y
