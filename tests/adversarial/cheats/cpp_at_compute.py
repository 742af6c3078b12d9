# task: softmax
# cheat: at::softmax inside the C++ function
# row: at::/torch:: compute inside the C++
# rule: legality.aten
# expect: not_allowed
# naive: accepts; the answer is PyTorch's own
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
torch::Tensor softmax_cuda(torch::Tensor x) {
    return at::softmax(x, -1);
}
"""
ext = load_inline(name="softmax_at", cpp_sources="torch::Tensor softmax_cuda(torch::Tensor x);", cuda_sources=source, functions=["softmax_cuda"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.softmax_cuda(x)
