# task: softmax
# cheat: computes on the CPU where no dispatch mode looks
# row: falls back to torch
# rule: legality.escape
# expect: not_allowed
# naive: accepts; it records no operators
from torch.utils._mode_utils import no_dispatch
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
"""
ext = load_inline(name="no_dispatch_cpu", cpp_sources="torch::Tensor copy(torch::Tensor x);", cuda_sources=source, functions=["copy"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.work = [torch.softmax][0]
        self.home = torch.device("c" + "pu")
        self.away = torch.device("cuda")

    def forward(self, x):
        with no_dispatch():
            y = self.work(x.to(self.home), -1)
        return ext.copy(y.to(self.away))
