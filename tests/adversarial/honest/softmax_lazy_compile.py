# task: softmax
# style: row held in dynamic shared memory; compiled at the first call and kept in a module-level cache
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

_compiled = None


def get_extension():
    global _compiled
    if _compiled is None:
        _compiled = load_inline(
            name="softmax_shared_row",
            cpp_sources="torch::Tensor run(torch::Tensor x);",
            cuda_sources=r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void softmax_shared_row(const float* x, float* y, int cols) {
    extern __shared__ float row[];
    __shared__ float most, total;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) row[c] = x[blockIdx.x * cols + c];
    __syncthreads();
    if (threadIdx.x == 0) {
        float m = row[0];
        for (int c = 1; c < cols; ++c) m = fmaxf(m, row[c]);
        most = m;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x) row[c] = expf(row[c] - most);
    __syncthreads();
    if (threadIdx.x == 0) {
        float t = 0.0f;
        for (int c = 0; c < cols; ++c) t += row[c];
        total = t;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.x * cols + c] = row[c] / total;
}
torch::Tensor run(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int cols = dense.size(1);
    softmax_shared_row<<<dense.size(0), 64, cols * sizeof(float)>>>(dense.data_ptr<float>(), y.data_ptr<float>(), cols);
    return y;
}
""",
            functions=["run"],
        )
    return _compiled


class ModelNew(nn.Module):
    def forward(self, x):
        return get_extension().run(x)
