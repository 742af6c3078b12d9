# task: maxpool2d
# style: flat index taken apart, NaN passed on as PyTorch does
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void maxpool(const float* x, float* y, int H, int W, int P, int Q, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const int q = i % Q;
        const int p = (i / Q) % P;
        const int plane = i / (P * Q);
        float best = -INFINITY;
        for (int dh = 0; dh < 3; ++dh) {
            for (int dw = 0; dw < 3; ++dw) {
                const int h = 2 * p - 1 + dh, w = 2 * q - 1 + dw;
                if (h < 0 || w < 0 || h >= H || w >= W) continue;
                const float v = x[(plane * H + h) * W + w];
                if (v > best || isnan(v)) best = v;
            }
        }
        y[i] = best;
    }
}

torch::Tensor pool(torch::Tensor x) {
    auto dense = x.contiguous();
    const int H = dense.size(2), W = dense.size(3);
    const int P = (H - 1) / 2 + 1, Q = (W - 1) / 2 + 1;
    auto y = torch::empty({dense.size(0), dense.size(1), P, Q}, dense.options());
    maxpool<<<4, 64>>>(dense.data_ptr<float>(), y.data_ptr<float>(), H, W, P, Q, y.numel());
    return y;
}
"""
ext = load_inline(name="maxpool_ext", cpp_sources="torch::Tensor pool(torch::Tensor x);", cuda_sources=source, functions=["pool"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.pool(x)
