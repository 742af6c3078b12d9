"""Dynamic shared memory reinterpreted, an accumulation type, a binding of its own with a default argument."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/AccumulateType.h>

template <typename scalar_t, typename acc_t>
__global__ void __launch_bounds__(512) layer_norm_kernel(const scalar_t* __restrict__ x, const scalar_t* __restrict__ w,
                                                         const scalar_t* __restrict__ b, scalar_t* __restrict__ y,
                                                         const int64_t D, const float eps) {
  extern __shared__ __align__(sizeof(double)) unsigned char raw[];
  acc_t* sums = reinterpret_cast<acc_t*>(raw);
  acc_t* squares = sums + blockDim.x;
  const int64_t row = blockIdx.x;
  acc_t a = 0, q = 0;
  for (int64_t i = threadIdx.x; i < D; i += blockDim.x) {
    acc_t v = static_cast<acc_t>(x[row * D + i]);
    a += v;
    q += v * v;
  }
  sums[threadIdx.x] = a;
  squares[threadIdx.x] = q;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) {
      sums[threadIdx.x] += sums[threadIdx.x + s];
      squares[threadIdx.x] += squares[threadIdx.x + s];
    }
    __syncthreads();
  }
  const acc_t mean = sums[0] / D;
  const acc_t rstd = rsqrt(squares[0] / D - mean * mean + static_cast<acc_t>(eps));
  for (int64_t i = threadIdx.x; i < D; i += blockDim.x)
    y[row * D + i] = static_cast<scalar_t>((static_cast<acc_t>(x[row * D + i]) - mean) * rstd *
                                               static_cast<acc_t>(w[i]) + static_cast<acc_t>(b[i]));
}

torch::Tensor layer_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps) {
  const at::cuda::CUDAGuard device_guard(x.device());
  auto y = torch::empty_like(x);
  int64_t D = w.numel(), rows = x.numel() / D;
  int threads = D < 512 ? 256 : 512;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "layer_norm", ([&] {
    using acc_t = at::acc_type<scalar_t, true>;
    size_t shared = 2 * threads * sizeof(acc_t);
    layer_norm_kernel<scalar_t, acc_t><<<rows, threads, shared, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), w.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), D,
        static_cast<float>(eps));
  }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &layer_norm, "LayerNorm forward", py::arg("x"), py::arg("w"), py::arg("b"), py::arg("eps") = 1e-5);
}
"""

extension = load_inline(name="layernorm_dynamic_shared", cpp_sources="", cuda_sources=cuda_source)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm((8, 16, 16))

    def forward(self, x):
        return self.norm(x)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm((8, 16, 16))

    def forward(self, x):
        return extension.forward(x, self.norm.weight.view(-1), b=self.norm.bias.view(-1))


def get_inputs():
    return [torch.randn(4, 8, 16, 16)]


def get_init_inputs():
    return []
