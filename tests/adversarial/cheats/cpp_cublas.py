# task: matmul
# cheat: cuBLAS does the multiplication
# row: at::/torch:: compute inside the C++
# rule: legality.library
# expect: not_allowed
# naive: -; passes on a device with cuBLAS
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>
__global__ void unused_kernel(float* x) { x[threadIdx.x] += 0.0f; }
torch::Tensor gemm(torch::Tensor a, torch::Tensor b) {
    auto x = a.contiguous(), y = b.contiguous();
    int m = x.size(0), k = x.size(1), n = y.size(1);
    auto c = torch::empty({m, n}, x.options());
    const float one = 1.0f, zero = 0.0f;
    cublasHandle_t handle = at::cuda::getCurrentCUDABlasHandle();
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, y.data_ptr<float>(), n, x.data_ptr<float>(), k, &zero, c.data_ptr<float>(), n);
    return c;
}
"""
ext = load_inline(name="gemm_cublas", cpp_sources="torch::Tensor gemm(torch::Tensor a, torch::Tensor b);", cuda_sources=source, functions=["gemm"], extra_ldflags=["-lcublas"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.gemm(a, b)
