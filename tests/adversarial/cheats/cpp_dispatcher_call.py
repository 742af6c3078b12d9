# task: cumsum
# cheat: the dispatcher is asked for the operator by a string
# row: at::/torch:: compute inside the C++
# rule: legality.aten
# expect: not_allowed
# naive: accepts; the answer is PyTorch's own
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <string>
__global__ void pass_on(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
torch::Tensor scan(torch::Tensor x) {
    std::string name = std::string("aten::") + "cum" + "sum";
    auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "");
    torch::jit::Stack stack{x, int64_t(1), c10::IValue()};
    op.callBoxed(&stack);
    auto scanned = stack[0].toTensor();
    auto y = torch::empty_like(scanned);
    int n = scanned.numel();
    pass_on<<<(n + 255) / 256, 256>>>(scanned.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline(name="scan_dispatcher", cpp_sources="torch::Tensor scan(torch::Tensor x);", cuda_sources=source, functions=["scan"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.scan(x)
