# task: scaled_rows
# style: float4 where the row's address allows it, single floats before and after
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cstdint>
__global__ void scaled_rows(const float* x, float* y, int cols) {
    const float* row = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;
    int head = (16 - reinterpret_cast<uintptr_t>(row) % 16) % 16 / 4;
    if (head > cols) head = cols;
    if (reinterpret_cast<uintptr_t>(row) % 16 != reinterpret_cast<uintptr_t>(out) % 16) head = cols;
    for (int c = threadIdx.x; c < head; c += blockDim.x) out[c] = row[c] * 2.0f + 1.0f;
    const int vectors = (cols - head) / 4;
    const float4* from = reinterpret_cast<const float4*>(row + head);
    float4* to = reinterpret_cast<float4*>(out + head);
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        float4 v = from[i];
        to[i] = make_float4(v.x * 2.0f + 1.0f, v.y * 2.0f + 1.0f, v.z * 2.0f + 1.0f, v.w * 2.0f + 1.0f);
    }
    for (int c = head + vectors * 4 + threadIdx.x; c < cols; c += blockDim.x) out[c] = row[c] * 2.0f + 1.0f;
}
torch::Tensor scale_rows(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    scaled_rows<<<dense.size(0), 32>>>(dense.data_ptr<float>(), y.data_ptr<float>(), dense.size(1));
    return y;
}
"""
ext = load_inline(name="rows", cpp_sources="torch::Tensor scale_rows(torch::Tensor x);", cuda_sources=source, functions=["scale_rows"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.scale_rows(x)
