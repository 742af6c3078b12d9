# task: matmul
# cheat: KernelBench's "result reuse": an empty tensor that the allocator puts where the reference's result was
# row: reads stale memory
# rule: legality.no_kernel
# expect: correctness, not_allowed
# naive: rejects; accepted by a caching allocator after the reference's output was freed
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
torch::Tensor matmul_cuda(torch::Tensor a, torch::Tensor b) {
    return torch::empty({a.size(0), b.size(1)}, a.options());
}
"""
ext = load_inline(name="quick_matmul", cpp_sources="torch::Tensor matmul_cuda(torch::Tensor a, torch::Tensor b);", cuda_sources=source, functions=["matmul_cuda"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.matmul = ext

    def forward(self, a, b):
        return self.matmul.matmul_cuda(a, b)
