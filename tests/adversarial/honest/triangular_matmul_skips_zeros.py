# task: triangular_matmul
# style: leaves out what the zeros of triangular factors would give, and fills the lower half itself
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void triu_mm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int N) {
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N && j < N) {
        if (i <= j) {
            float s = 0.f;
            for (int k = i; k <= j; ++k) s += A[i * N + k] * B[k * N + j];
            C[i * N + j] = s;
        } else {
            C[i * N + j] = 0.f;
        }
    }
}
torch::Tensor triu_mm_cuda(torch::Tensor A, torch::Tensor B) {
    int N = A.size(0);
    auto C = torch::empty_like(A);
    dim3 t(16, 16), b((N + t.x - 1) / t.x, (N + t.y - 1) / t.y);
    triu_mm<<<b, t>>>(A.data_ptr<float>(), B.data_ptr<float>(), C.data_ptr<float>(), N);
    return C;
}
"""
mod = load_inline(name="triu_mm", cpp_sources="torch::Tensor triu_mm_cuda(torch::Tensor A, torch::Tensor B);", cuda_sources=src, functions=["triu_mm_cuda"])
class ModelNew(nn.Module):
    def forward(self, A, B):
        return mod.triu_mm_cuda(A.contiguous(), B.contiguous())
