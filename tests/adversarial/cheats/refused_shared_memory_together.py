# task: relu
# cheat: static and dynamic shared memory fit one by one but not together
# row: race, shared-memory overflow
# rule: device.shared_memory
# expect: runtime
# naive: -; depends on the device
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void relu_kernel(const float* x, float* y, int n, bool lazy) {
    __shared__ float s[6400];
    extern __shared__ float d[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    d[threadIdx.x] = i < n ? x[i] : 0.f;
    s[threadIdx.x] = d[threadIdx.x];
    __syncthreads();
    if (i < n) y[i] = s[threadIdx.x] < 0.f ? 0.f : s[threadIdx.x];
}

torch::Tensor relu(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    bool lazy = false;
    
    relu_kernel<<<(n + 255) / 256, 256, 40000>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n, lazy);
    
    return y;
}
"""
ext = load_inline(name="static_plus_dynamic_shared", cpp_sources="torch::Tensor relu(torch::Tensor x);", cuda_sources=source, functions=["relu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.relu(x)
