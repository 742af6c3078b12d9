# task: silu
# style: a torch.autograd.Function with forward and backward kernels, through a functional wrapper with a default
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#define CHECK_INPUT(t) TORCH_CHECK((t).is_cuda(), #t " must be on the device"); TORCH_CHECK((t).is_contiguous(), #t " must be contiguous")

template <typename F>
__global__ void map_kernel(F f, int64_t n) {
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) f(i);
}

struct Silu {
    const float* __restrict__ x;
    float* __restrict__ y;
    __device__ void operator()(int64_t i) const { y[i] = x[i] / (1.0f + expf(-x[i])); }
};

struct SiluBackward {
    const float* grad;
    const float* x;
    float* out;
    __device__ void operator()(int64_t i) const {
        const float s = 1.0f / (1.0f + expf(-x[i]));
        out[i] = grad[i] * s * (1.0f + x[i] * (1.0f - s));
    }
};

torch::Tensor silu_forward(torch::Tensor x) {
    CHECK_INPUT(x);
    auto y = torch::empty_like(x);
    const int64_t n = x.numel();
    map_kernel<<<std::min<int64_t>((n + 255) / 256, 4096), 256>>>(Silu{x.data_ptr<float>(), y.data_ptr<float>()}, n);
    return y;
}

torch::Tensor silu_backward(torch::Tensor grad, torch::Tensor x) {
    CHECK_INPUT(grad); CHECK_INPUT(x);
    auto out = torch::empty_like(x);
    map_kernel<<<(x.numel() + 255) / 256, 256>>>(SiluBackward{grad.data_ptr<float>(), x.data_ptr<float>(), out.data_ptr<float>()}, x.numel());
    return out;
}
"""
ext = load_inline(
    name="silu_function",
    cpp_sources=["torch::Tensor silu_forward(torch::Tensor x);", "torch::Tensor silu_backward(torch::Tensor grad, torch::Tensor x);"],
    cuda_sources=[source],
    functions=["silu_forward", "silu_backward"],
    with_cuda=True,
)


class SiluFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, inplace=False):
        x = x.contiguous()
        ctx.save_for_backward(x)
        return ext.silu_forward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return ext.silu_backward(grad_output.contiguous(), x), None


def fast_silu(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    return SiluFunction.apply(x, inplace)


class ModelNew(nn.Module):
    def forward(self, x, *, inplace: bool = False):
        return fast_silu(x, inplace=inplace)
