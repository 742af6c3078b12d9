# task: half_row_mean
# cheat: adds in half precision, whose range the sum leaves where the mean does not
# row: lower precision than asked
# rule: correctness.nonfinite
# expect: correctness
# naive: accepts; sums of usual values are small, and lanes and a tree keep their errors small
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>

__global__ void mean_kernel(const __half* x, __half* y, int width) {
    __half sum = __float2half(0.0f);
    for (int i = threadIdx.x; i < width; i += 32) sum = __hadd(sum, x[blockIdx.x * width + i]);
    for (int offset = 16; offset > 0; offset /= 2) sum = __hadd(sum, __shfl_xor_sync(0xffffffff, sum, offset));
    if (threadIdx.x == 0) y[blockIdx.x] = __float2half(__half2float(sum) / width);
}

torch::Tensor row_mean(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty({x.size(0)}, x.options());
    mean_kernel<<<x.size(0), 32>>>(reinterpret_cast<const __half*>(x.data_ptr()), reinterpret_cast<__half*>(y.data_ptr()), x.size(1));
    return y;
}
"""
ext = load_inline(name="half_sum", cpp_sources="torch::Tensor row_mean(torch::Tensor x);", cuda_sources=source, functions=["row_mean"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_mean(x)
