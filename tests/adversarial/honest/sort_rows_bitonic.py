# task: sort_rows
# style: bitonic sort in shared memory, padded with NaN, which sorts last
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#include <math_constants.h>
__device__ __forceinline__ bool after(float a, float b) { return a > b || (isnan(a) && !isnan(b)); }
__global__ void bitonic(const float* x, float* y, int n, int padded) {
    extern __shared__ float s[];
    for (int i = threadIdx.x; i < padded; i += blockDim.x) s[i] = i < n ? x[blockIdx.x * n + i] : CUDART_NAN_F;
    __syncthreads();
    for (int k = 2; k <= padded; k <<= 1)
        for (int j = k >> 1; j > 0; j >>= 1) {
            for (int i = threadIdx.x; i < padded; i += blockDim.x) {
                int o = i ^ j;
                if (o > i) {
                    bool up = (i & k) == 0;
                    float a = s[i], b = s[o];
                    if (after(a, b) == up && (up || after(b, a))) { s[i] = b; s[o] = a; }
                }
            }
            __syncthreads();
        }
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = s[i];
}
torch::Tensor sort_rows(torch::Tensor x) {
    x = x.contiguous();
    int n = x.size(1), padded = 1;
    while (padded < n) padded *= 2;
    auto y = torch::empty_like(x);
    bitonic<<<x.size(0), 128, padded * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, padded);
    return y;
}
"""
ext = load_inline(name="bitonic", cpp_sources="torch::Tensor sort_rows(torch::Tensor x);", cuda_sources=src, functions=["sort_rows"])
class ModelNew(nn.Module):
    def forward(self, x):
        return ext.sort_rows(x)
