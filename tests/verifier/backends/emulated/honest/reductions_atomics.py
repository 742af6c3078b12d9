"""Atomics in global and shared memory, two kernels, several outputs of different dtypes."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__inline__ __device__ float block_sum(float value) {
  static __shared__ float shared[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int o = 16; o; o >>= 1) value += __shfl_down_sync(0xFFFFFFFFu, value, o);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = (threadIdx.x < blockDim.x / 32) ? shared[lane] : 0.0f;
  if (warp == 0) for (int o = 16; o; o >>= 1) value += __shfl_down_sync(0xFFFFFFFFu, value, o);
  return value;
}

__global__ void mse_kernel(const float* a, const float* b, float* out, size_t n) {
  float s = 0;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    float d = a[i] - b[i];
    s += d * d;
  }
  s = block_sum(s);
  if (threadIdx.x == 0) atomicAdd(out, s / n);
}

__global__ void histogram_kernel(const float* a, int* bins, int n, int nb, float lo, float hi) {
  extern __shared__ int local[];
  for (int i = threadIdx.x; i < nb; i += blockDim.x) local[i] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = a[i];
    if (v >= lo && v <= hi) atomicAdd(&local[min((int)((v - lo) / (hi - lo) * nb), nb - 1)], 1);
  }
  __syncthreads();
  for (int j = threadIdx.x; j < nb; j += blockDim.x) if (local[j]) atomicAdd(bins + j, local[j]);
}

std::vector<torch::Tensor> mse_histogram(torch::Tensor a, torch::Tensor b) {
  auto out = torch::zeros({}, a.options());
  auto bins = torch::zeros({64}, a.options().dtype(torch::kInt32));
  size_t n = a.numel();
  mse_kernel<<<std::min<int>((n + 255) / 256, 128), 256>>>(a.data_ptr<float>(), b.data_ptr<float>(),
                                                           out.data_ptr<float>(), n);
  histogram_kernel<<<(n + 255) / 256, 256, 64 * sizeof(int)>>>(a.data_ptr<float>(), bins.data_ptr<int>(), n, 64, -3.f,
                                                               3.f);
  return {out, bins};
}
"""

extension = load_inline(
    name="reductions_atomics",
    cpp_sources="#include <vector>\nstd::vector<torch::Tensor> mse_histogram(torch::Tensor a, torch::Tensor b);",
    cuda_sources=cuda_source,
    functions=["mse_histogram"],
)


class Model(nn.Module):
    def forward(self, a, b):
        return torch.mean((a - b) ** 2), torch.histc(a.cpu(), 64, -3, 3).to(a.device).int()


class ModelNew(nn.Module):
    def forward(self, a, b):
        return tuple(extension.mse_histogram(a, b))


def get_inputs():
    return [torch.randn(32, 500), torch.randn(32, 500)]


def get_init_inputs():
    return []
