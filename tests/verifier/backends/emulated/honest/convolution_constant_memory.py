"""Constant memory, three-dimensional grids, at:: names, positional arguments of load_inline."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>

__constant__ float c_bias[1024];

__global__ void conv2d_kernel(const float* __restrict__ in, const float* __restrict__ w, float* __restrict__ out, int N,
                              int C, int H, int W, int K, int R, int S, int P, int Q, int stride, int pad) {
  int q = blockIdx.x * blockDim.x + threadIdx.x, p = blockIdx.y * blockDim.y + threadIdx.y, nk = blockIdx.z;
  if (q >= Q || p >= P) return;
  int n = nk / K, k = nk % K;
  float acc = c_bias[k];
  for (int c = 0; c < C; ++c)
    #pragma unroll
    for (int r = 0; r < R; ++r)
      for (int s = 0; s < S; ++s) {
        int h = p * stride - pad + r, x = q * stride - pad + s;
        if (h >= 0 && h < H && x >= 0 && x < W)
          acc += in[((n * C + c) * H + h) * W + x] * w[((k * C + c) * R + r) * S + s];
      }
  out[((n * K + k) * P + p) * Q + q] = fmaxf(acc, 0.f);
}

at::Tensor conv2d_relu(at::Tensor x, at::Tensor w, at::Tensor b, int64_t stride, int64_t pad) {
  x = x.contiguous();
  w = w.contiguous();
  int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3), K = w.size(0), R = w.size(2), S = w.size(3);
  int P = (H + 2 * pad - R) / stride + 1, Q = (W + 2 * pad - S) / stride + 1;
  at::Tensor out = at::empty({N, K, P, Q}, at::TensorOptions().dtype(at::kFloat).device(at::kCUDA, 0));
  cudaMemcpyToSymbol(c_bias, b.data_ptr<float>(), K * sizeof(float), 0, cudaMemcpyDeviceToDevice);
  dim3 block(16, 16), grid((Q + 15) / 16, (P + 15) / 16, N * K);
  conv2d_kernel<<<grid, block>>>(x.data_ptr<float>(), w.data_ptr<float>(), out.data_ptr<float>(), N, C, H, W, K, R, S,
                                 P, Q, (int)stride, (int)pad);
  auto e = cudaDeviceSynchronize();
  if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
  return out;
}
"""

extension = load_inline(
    "convolution_constant_memory",
    "at::Tensor conv2d_relu(at::Tensor x, at::Tensor w, at::Tensor b, int64_t stride, int64_t pad);",
    cuda_source,
    functions=["conv2d_relu"],
)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 5, stride=2, padding=2)

    def forward(self, x):
        return torch.relu(self.conv(x))


class ModelNew(Model):
    def forward(self, x):
        return extension.conv2d_relu(x, self.conv.weight, self.conv.bias, 2, 2)


def get_inputs():
    return [torch.randn(2, 3, 33, 35)]


def get_init_inputs():
    return []
