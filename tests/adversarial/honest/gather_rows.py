# task: gather
# style: two-dimensional index
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

template <typename index_t>
__global__ void gather_kernel(const float* x, const index_t* index, float* out, int source_cols, int cols, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const int row = i / cols;
        out[i] = x[row * source_cols + index[i]];
    }
}

torch::Tensor gather(torch::Tensor x, torch::Tensor index) {
    auto values = x.contiguous();
    auto places = index.contiguous();
    auto out = torch::empty(places.sizes(), values.options());
    const int n = places.numel();
    gather_kernel<int64_t><<<(n + 63) / 64, 64>>>(values.data_ptr<float>(), places.data_ptr<int64_t>(), out.data_ptr<float>(), values.size(1), places.size(1), n);
    return out;
}
"""
ext = load_inline(name="gather_ext", cpp_sources="torch::Tensor gather(torch::Tensor x, torch::Tensor index);", cuda_sources=source, functions=["gather"])


class ModelNew(nn.Module):
    def forward(self, x, index):
        return ext.gather(x, index)
