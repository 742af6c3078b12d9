# task: gelu
# style: macros, manual unrolling by four, launch bounds
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

#define THREADS 128
#define UNROLL 4
#define DIV_UP(a, b) (((a) + (b) - 1) / (b))
#define GELU(v) (0.5f * (v) * (1.0f + erff((v) * M_SQRT1_2_F)))
#define M_SQRT1_2_F 0.707106781f

__global__ void __launch_bounds__(THREADS) gelu_unrolled(const float* __restrict__ x, float* __restrict__ y, const unsigned int n) {
    const unsigned int base = blockIdx.x * (THREADS * UNROLL) + threadIdx.x;
    float v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const unsigned int i = base + u * THREADS;
        v[u] = (i < n) ? __ldg(x + i) : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const unsigned int i = base + u * THREADS;
        if (i < n) y[i] = GELU(v[u]);
    }
}

torch::Tensor gelu_forward(torch::Tensor x) {
    auto y = torch::empty(x.sizes(), x.options());
    const unsigned int n = x.numel();
    gelu_unrolled<<<DIV_UP(n, THREADS * UNROLL), THREADS>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    auto status = cudaGetLastError();
    TORCH_CHECK(status == cudaSuccess, "gelu: ", cudaGetErrorString(status));
    return y;
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = load_inline(
            name="gelu_unrolled",
            cpp_sources=["torch::Tensor gelu_forward(torch::Tensor x);"],
            cuda_sources=[source],
            functions=["gelu_forward"],
            with_cuda=True,
        )

    def forward(self, x):
        return self.kernel.gelu_forward(x.contiguous())
