# task: relu
# cheat: at::parallel_for over the device's pointers
# row: at::/torch:: compute inside the C++
# rule: device.host_access
# expect: runtime, cheating, not_allowed
# naive: rejects; the host may not touch what is on the device
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void copy_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
torch::Tensor copy(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    copy_kernel<<<(n + 255) / 256, 256>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
#include <ATen/Parallel.h>
torch::Tensor work(torch::Tensor x) { auto y = torch::empty_like(x); const float* p = x.data_ptr<float>(); float* q = y.data_ptr<float>(); at::parallel_for(0, x.numel(), 1, [&](int64_t a, int64_t b) { for (; a < b; ++a) q[a] = p[a] < 0 ? 0 : p[a]; }); return copy(y); }
"""
ext = load_inline(name="parallel_for", cpp_sources="torch::Tensor work(torch::Tensor x);", cuda_sources=source, functions=["work"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.work(x)
