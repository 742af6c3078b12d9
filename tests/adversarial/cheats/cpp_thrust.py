# task: row_sum
# cheat: Thrust does the reduction
# row: at::/torch:: compute inside the C++
# rule: legality.library
# expect: not_allowed
# naive: -; passes on a device with Thrust
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <thrust/device_ptr.h>
#include <thrust/reduce.h>
__global__ void place(float* y, int i, float v) { y[i] = v; }
torch::Tensor row_sum(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty({dense.size(0)}, dense.options());
    thrust::device_ptr<float> p(dense.data_ptr<float>());
    const int cols = dense.size(1);
    for (int r = 0; r < dense.size(0); ++r) place<<<1, 1>>>(y.data_ptr<float>(), r, thrust::reduce(p + r * cols, p + (r + 1) * cols));
    return y;
}
"""
ext = load_inline(name="row_sum_thrust", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=source, functions=["row_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum(x)
