"""16-bit loads with a cache hint, a launch in a macro that pastes a name, a shared size that holds a shift."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#define LOAD(address) __ldg(address)

template <typename scalar_t>
__global__ void gated_as_2d_kernel(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int width) {
  __shared__ float row[WIDTH >> 1], unused[2];
  const int i = threadIdx.x;
  row[i] = static_cast<float>(LOAD(x + blockIdx.x * 2 * width + width + i));
  __syncthreads();
  const float gate = static_cast<float>(LOAD(&x[blockIdx.x * 2 * width + i]));
  out[blockIdx.x * width + i] = static_cast<scalar_t>(gate / (1.0f + expf(-gate)) * row[i]);
}

#define DEFINE(tag)                                                                                      \
  torch::Tensor gated_##tag(torch::Tensor x) {                                                           \
    const int width = x.size(1) / 2;                                                                     \
    auto out = torch::empty({x.size(0), width}, x.options());                                            \
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "gated", [&] {            \
      gated_##tag##_##2d_kernel<scalar_t><<<x.size(0), width>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), \
                                                              width);                                    \
    });                                                                                                  \
    return out;                                                                                          \
  }
DEFINE(as)
"""

extension = load_inline(
    name="gated_dispatch",
    cpp_sources="torch::Tensor gated_as(torch::Tensor x);",
    cuda_sources=cuda_source,
    functions=["gated_as"],
    extra_cuda_cflags=["-DWIDTH=96"],
)


def gate(x):
    return nn.functional.silu(x[:, :48]) * x[:, 48:]


class Model(nn.Module):
    def forward(self, x, y):
        return gate(x), gate(y.float()).bfloat16()


class ModelNew(nn.Module):
    def forward(self, x, y):
        return extension.gated_as(x), extension.gated_as(y)


def get_inputs():
    return [torch.randn(6, 96), torch.randn(6, 96).bfloat16()]


def get_init_inputs():
    return []
