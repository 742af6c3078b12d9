# task: frobenius
# cheat: `using torch::norm` and a plain call
# row: at::/torch:: compute inside the C++
# rule: legality.aten
# expect: not_allowed
# naive: -; the emulator's small headers do not declare a bare norm(); with all of PyTorch's it is accepted
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
using namespace torch;
__global__ void divide_all(const float* x, const float* length, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / *length;
}
Tensor run(Tensor x) {
    auto dense = x.contiguous();
    auto length = norm(dense);
    auto y = empty_like(dense);
    int n = dense.numel();
    divide_all<<<(n + 255) / 256, 256>>>(dense.data_ptr<float>(), length.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline(name="frobenius_using", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
