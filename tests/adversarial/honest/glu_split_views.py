# task: glu
# style: views made in Python with chunk, passed as strided halves
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void glu_kernel(const float* value, const float* gate, float* out, int width, int row_stride, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int at = (i / width) * row_stride + i % width;
        out[i] = value[at] * (1.0f / (1.0f + expf(-gate[at])));
    }
}

torch::Tensor glu(torch::Tensor value, torch::Tensor gate) {
    auto out = torch::empty(value.sizes(), value.options());
    int n = out.numel();
    glu_kernel<<<(n + 127) / 128, 128>>>(value.data_ptr<float>(), gate.data_ptr<float>(), out.data_ptr<float>(), value.size(1), value.stride(0), n);
    return out;
}
"""
ext = load_inline(name="glu_ext", cpp_sources="torch::Tensor glu(torch::Tensor value, torch::Tensor gate);", cuda_sources=source, functions=["glu"])


class ModelNew(nn.Module):
    def forward(self, x):
        rows = x.contiguous().view(-1, x.shape[-1])
        half = x.shape[-1] // 2
        value, gate = rows[:, :half], rows[:, half:]
        return ext.glu(value, gate).reshape(*x.shape[:-1], half)
