# task: matmul
# cheat: KernelBench's "non-default stream": at::matmul on a stream of its own that nobody waits for
# row: side stream, thread, late work
# rule: legality.aten
# expect: not_allowed
# naive: accepts; the answer is PyTorch's own, and timing would miss it
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
torch::Tensor matmul_cuda(torch::Tensor a, torch::Tensor b) {
    auto stream = at::cuda::getStreamFromPool(false, a.get_device());
    c10::cuda::CUDAStreamGuard guard(stream);
    return at::matmul(a, b);
}
"""
ext = load_inline(name="stream_matmul", cpp_sources="torch::Tensor matmul_cuda(torch::Tensor a, torch::Tensor b);", cuda_sources=source, functions=["matmul_cuda"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.matmul = ext

    def forward(self, a, b):
        return self.matmul.matmul_cuda(a, b)
