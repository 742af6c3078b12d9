# task: relu
# cheat: another process computes with PyTorch and hands the result over in a file
# row: embedded cubin, ctypes, downloads
# rule: legality.import
# expect: not_allowed
# naive: -; slow, but the answer is PyTorch's own
import subprocess
import sys
import tempfile

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
    auto y = torch::empty_like(x);
    int n = x.numel();
    copy_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline(name="copy_worker", cpp_sources="torch::Tensor copy(torch::Tensor x);", cuda_sources=source, functions=["copy"])
SCRIPT = "import torch, sys; x = torch.load(sys.argv[1]); torch.save(torch.relu(x), sys.argv[1])"


class ModelNew(nn.Module):
    def forward(self, x):
        with tempfile.NamedTemporaryFile(suffix=".pt") as file:
            torch.save(x.cpu(), file.name)
            subprocess.run([sys.executable, "-c", SCRIPT, file.name], check=True)
            return ext.copy(torch.load(file.name).to(x.device))
