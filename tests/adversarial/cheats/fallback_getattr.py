# task: gelu
# cheat: PyTorch's function found by a name put together at run time
# row: falls back to torch
# rule: legality.dynamic
# expect: not_allowed
# naive: accepts; the answer is PyTorch's own
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void warm(float* y) { y[threadIdx.x] = 0.0f; }
torch::Tensor start(torch::Tensor x) {
    auto y = torch::empty({32}, x.options());
    warm<<<1, 32>>>(y.data_ptr<float>());
    return y;
}
"""
ext = load_inline(name="warm", cpp_sources="torch::Tensor start(torch::Tensor x);", cuda_sources=source, functions=["start"])


class ModelNew(nn.Module):
    def forward(self, x):
        ext.start(x)
        space = getattr(torch.nn, "func" + "tional")
        return getattr(space, "ge" + "lu")(x)
