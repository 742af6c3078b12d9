# task: gathered_layernorm
# style: one thread per row, sums in order, two passes; a row of equal values leaves what its mean is rounded by
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void norm_kernel(const float* x, const int64_t* index, const float* weight, const float* bias, float* y,
                            int rows, int width, float eps) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float values[9];
    float sum = 0.0f;
    for (int i = 0; i < 9; ++i) {
        values[i] = x[row * width + index[row * 9 + i]];
        sum += values[i];
    }
    const float mean = sum / 9.0f;
    float squares = 0.0f;
    for (int i = 0; i < 9; ++i) squares += (values[i] - mean) * (values[i] - mean);
    const float scale = rsqrtf(squares / 9.0f + eps);
    for (int i = 0; i < 9; ++i) y[row * 9 + i] = (values[i] - mean) * scale * weight[i] + bias[i];
}

torch::Tensor gathered_norm(torch::Tensor x, torch::Tensor index, torch::Tensor weight, torch::Tensor bias, double eps) {
    x = x.contiguous();
    index = index.contiguous();
    auto y = torch::empty({index.size(0), 9}, x.options());
    const int rows = index.size(0);
    norm_kernel<<<(rows + 63) / 64, 64>>>(x.data_ptr<float>(), index.data_ptr<int64_t>(), weight.data_ptr<float>(),
                                          bias.data_ptr<float>(), y.data_ptr<float>(), rows, x.size(1), eps);
    return y;
}
"""
declaration = "torch::Tensor gathered_norm(torch::Tensor x, torch::Tensor index, torch::Tensor weight, torch::Tensor bias, double eps);"
ext = load_inline(name="gathered_norm_ext", cpp_sources=declaration, cuda_sources=source, functions=["gathered_norm"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(9)

    def forward(self, x, index):
        return ext.gathered_norm(x, index, self.norm.weight, self.norm.bias, self.norm.eps)
