# task: softmax
# cheat: an annotation that PyTorch evaluates when an operator is made changes the record
# row: patches Event, synchronize, allclose, time
# rule: execute.exception
# expect: cheating, not_allowed, runtime
# naive: accepts; it records no operators
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
src = r"""
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
ext = load_inline(name="e3", cpp_sources="torch::Tensor copy(torch::Tensor x);", cuda_sources=src, functions=["copy"])
box = []
@torch.library.custom_op("mine::copy2", mutates_args=())
def op(x: "[torch.Tensor, exec('import sys; h = sys.modules[\"musadata.verifier.sandboxed.execute\"]; old = h._describe_records; h._describe_records = lambda r, w: (w.operators.clear(), old(r, w))[1]', {})][0]") -> torch.Tensor:
    return ext.copy(x)
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.work = [torch.softmax][0]
    def forward(self, x):
        return op(self.work(x, -1))
