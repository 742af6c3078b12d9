# task: matmul
# cheat: writes one element and leaves the rest to what was there before
# row: reads stale memory
# rule: correctness.nonfinite
# expect: correctness
# naive: rejects; accepted by a caching allocator after the reference's output was freed
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void corner(const float* a, const float* b, float* c, int n, int k) {
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[i] * b[i * n];
    c[0] = sum;
}
torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
    auto x = a.contiguous(), y = b.contiguous();
    auto c = torch::empty({x.size(0), y.size(1)}, x.options());
    corner<<<1, 1>>>(x.data_ptr<float>(), y.data_ptr<float>(), c.data_ptr<float>(), y.size(1), x.size(1));
    return c;
}
"""
ext = load_inline(name="corner", cpp_sources="torch::Tensor matmul(torch::Tensor a, torch::Tensor b);", cuda_sources=source, functions=["matmul"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.matmul(a, b)
