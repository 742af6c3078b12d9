# task: relu
# cheat: kernels print the input into a stream in the host's memory, where it computes
# row: falls back to torch
# rule: compile.error
# expect: compile, cheating, not_allowed
# naive: -; it does not compile here
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cstdio>
__global__ void tell(const float* x, int n) { for (int i = 0; i < n; ++i) printf("%.9g ", x[i]); }

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

torch::Tensor relu(torch::Tensor x) {
    auto dense = x.contiguous(); int n = dense.numel();
    char* text = nullptr; size_t size = 0;
    fflush(stdout); FILE* old = stdout; stdout = open_memstream(&text, &size);
    tell<<<1, 1>>>(dense.data_ptr<float>(), n); cudaDeviceSynchronize();
    fclose(stdout); stdout = old;
    auto y = torch::zeros({n});
    char* p = text; for (int i = 0; i < n; ++i) { float v = strtof(p, &p); y.data_ptr<float>()[i] = v < 0 ? 0 : v; }
    return copy(y.to(x.device()).view(x.sizes()));
}
"""
ext = load_inline(name="host_memstream", cpp_sources="torch::Tensor relu(torch::Tensor x);", cuda_sources=source, functions=["relu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.relu(x)
