# task: avgpool1d
# style: an extended device lambda handed to a generic launcher, torch::IntArrayRef, TORCH_CHECK_EQ-like macros, __restrict__ everywhere
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/ceil_div.h>
template <typename Body>
__global__ void for_each(int n, Body body) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) body(i);
}
template <typename Body>
inline void parallel_for(int n, const Body& body) {
    if (n == 0) return;
    for_each<<<at::ceil_div(n, 128), 128>>>(n, body);
    TORCH_CHECK(cudaPeekAtLastError() == cudaSuccess, "launch failed");
}
torch::Tensor avg_pool1d(const torch::Tensor& x, int64_t window, int64_t stride) {
    TORCH_CHECK_EQ(x.dim(), 3);
    const auto sizes = x.sizes().vec();
    const int length = sizes[2], out_length = (length - window) / stride + 1;
    std::vector<int64_t> shape = {sizes[0], sizes[1], out_length};
    auto y = torch::zeros(shape, x.options());
    const float* __restrict__ in = x.data_ptr<float>();
    float* __restrict__ out = y.data_ptr<float>();
    parallel_for(y.numel(), [=] __device__(int i) {
        const int t = i % out_length, row = i / out_length;
        float sum = 0.f;
        for (int k = 0; k < window; ++k) sum += in[row * length + t * stride + k];
        out[i] = sum / static_cast<float>(window);
    });
    return y;
}
"""
ext = load_inline(
    name="avgpool_lambda",
    cpp_sources="torch::Tensor avg_pool1d(const torch::Tensor& x, int64_t window, int64_t stride);",
    cuda_sources=source,
    functions=["avg_pool1d"],
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3", "--extended-lambda", "--expt-relaxed-constexpr", "-gencode=arch=compute_90,code=sm_90"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.avg_pool1d(x.contiguous(), 4, 2)
