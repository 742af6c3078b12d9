# task: conv2d
# style: im2col kernel into a workspace, then a matmul kernel of its own; parameters under the reference's names
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void im2col(const float* x, float* columns, int C, int H, int W, int P, int Q, int total) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int pixels = P * Q;
    const int pixel = i % pixels;
    const int tap = (i / pixels) % (C * 9);
    const int n = i / (pixels * C * 9);
    const int c = tap / 9, r = tap % 9 / 3, s = tap % 3;
    const int h = pixel / Q * 2 - 1 + r;
    const int w = pixel % Q * 2 - 1 + s;
    columns[i] = (h >= 0 && h < H && w >= 0 && w < W) ? x[((n * C + c) * H + h) * W + w] : 0.0f;
}

__global__ void multiply(const float* weight, const float* columns, const float* bias, float* y, int K, int taps, int pixels) {
    const int pixel = blockIdx.x * blockDim.x + threadIdx.x;
    const int k = blockIdx.y, n = blockIdx.z;
    if (pixel >= pixels) return;
    float acc = 0.0f;
    for (int t = 0; t < taps; ++t) acc += weight[k * taps + t] * columns[(n * taps + t) * pixels + pixel];
    y[(n * K + k) * pixels + pixel] = acc + bias[k];
}

torch::Tensor conv(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto input = x.contiguous();
    const int N = input.size(0), C = input.size(1), H = input.size(2), W = input.size(3), K = weight.size(0);
    const int P = (H - 1) / 2 + 1, Q = (W - 1) / 2 + 1;
    auto columns = torch::empty({N, C * 9, P * Q}, input.options());
    auto y = torch::empty({N, K, P, Q}, input.options());
    const int total = columns.numel();
    im2col<<<(total + 127) / 128, 128>>>(input.data_ptr<float>(), columns.data_ptr<float>(), C, H, W, P, Q, total);
    multiply<<<dim3((P * Q + 31) / 32, K, N), 32>>>(weight.data_ptr<float>(), columns.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), K, C * 9, P * Q);
    return y;
}
"""
ext = load_inline(name="conv_im2col", cpp_sources="torch::Tensor conv(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);", cuda_sources=source, functions=["conv"])


class Convolution(nn.Module):
    """Holds the parameters only; the work is done by the kernels."""

    def __init__(self, inputs, outputs, size):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, size, size))
        self.bias = nn.Parameter(torch.empty(outputs))
        bound = (inputs * size * size) ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x):
        return ext.conv(x, self.weight, self.bias)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = Convolution(3, 5, 3)

    def forward(self, x):
        return self.conv(x)
