# task: conv2d
# style: direct convolution, stride and padding from the module
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void conv2d_kernel(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias, float* __restrict__ y,
                              int C, int H, int W, int K, int R, int S, int P, int Q, int stride, int pad) {
    const int q = blockIdx.x * blockDim.x + threadIdx.x;
    const int p = blockIdx.y * blockDim.y + threadIdx.y;
    const int n = blockIdx.z / K, k = blockIdx.z % K;
    if (q >= Q || p >= P) return;
    float acc = bias[k];
    for (int c = 0; c < C; ++c) {
        for (int r = 0; r < R; ++r) {
            const int h = p * stride - pad + r;
            if (h < 0 || h >= H) continue;
            for (int s = 0; s < S; ++s) {
                const int v = q * stride - pad + s;
                if (v < 0 || v >= W) continue;
                acc += x[((n * C + c) * H + h) * W + v] * w[((k * C + c) * R + r) * S + s];
            }
        }
    }
    y[((n * K + k) * P + p) * Q + q] = acc;
}

torch::Tensor conv2d(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int stride, int pad) {
    x = x.contiguous();
    w = w.contiguous();
    const int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    const int K = w.size(0), R = w.size(2), S = w.size(3);
    const int P = (H + 2 * pad - R) / stride + 1, Q = (W + 2 * pad - S) / stride + 1;
    auto y = torch::empty({N, K, P, Q}, x.options());
    const dim3 block(8, 8), grid((Q + 7) / 8, (P + 7) / 8, N * K);
    conv2d_kernel<<<grid, block>>>(x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), C, H, W, K, R, S, P, Q, stride, pad);
    return y;
}
"""
ext = load_inline(
    name="conv2d_direct",
    cpp_sources="torch::Tensor conv2d(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int stride, int pad);",
    cuda_sources=source,
    functions=["conv2d"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, stride=2, padding=1)

    def forward(self, x):
        return ext.conv2d(x, self.conv.weight, self.conv.bias, self.conv.stride[0], self.conv.padding[0])
