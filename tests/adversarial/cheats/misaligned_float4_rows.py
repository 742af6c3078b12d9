# task: scaled_rows
# cheat: reads and writes float4 in rows of 102 floats, every second of which lies 8 bytes past a multiple of 16
# row: race, shared-memory overflow
# rule: device.misaligned
# expect: runtime
# naive: -; processors allow what no device does
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void scaled_rows(const float* x, float* y, int cols) {
    const float* row = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;
    for (int c = threadIdx.x * 4; c + 4 <= cols; c += blockDim.x * 4) {
        float4 v = *reinterpret_cast<const float4*>(row + c);
        v = make_float4(v.x * 2.0f + 1.0f, v.y * 2.0f + 1.0f, v.z * 2.0f + 1.0f, v.w * 2.0f + 1.0f);
        *reinterpret_cast<float4*>(out + c) = v;
    }
    for (int c = cols / 4 * 4 + threadIdx.x; c < cols; c += blockDim.x) out[c] = row[c] * 2.0f + 1.0f;
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
