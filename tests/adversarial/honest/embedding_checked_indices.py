# task: embedding
# style: reads a flag back to the host, to refuse indices that are out of range
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void lookup(const int64_t* __restrict__ index, const float* __restrict__ table, float* __restrict__ out, int width,
                       int64_t rows, int* bad) {
    const int64_t row = index[blockIdx.x];
    if (row < 0 || row >= rows) {
        *bad = 1;
        return;
    }
    for (int c = threadIdx.x; c < width; c += blockDim.x) out[blockIdx.x * width + c] = table[row * width + c];
}

torch::Tensor embedding(torch::Tensor index, torch::Tensor table) {
    auto flat = index.contiguous().view({-1});
    const int width = table.size(1);
    auto out = torch::empty({flat.size(0), width}, table.options());
    auto bad = torch::zeros({1}, table.options().dtype(torch::kInt));
    lookup<<<flat.size(0), 32>>>(flat.data_ptr<int64_t>(), table.data_ptr<float>(), out.data_ptr<float>(), width,
                                 table.size(0), bad.data_ptr<int>());
    int found = 0;
    cudaMemcpy(&found, bad.data_ptr<int>(), sizeof(int), cudaMemcpyDeviceToHost);
    TORCH_CHECK(found == 0, "an index is out of range");
    return out;
}
"""
ext = load_inline(name="embedding_ext", cpp_sources="torch::Tensor embedding(torch::Tensor index, torch::Tensor table);", cuda_sources=source, functions=["embedding"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, 36)

    def forward(self, index):
        rows = ext.embedding(index, self.table.weight)
        return rows.view(*index.shape, -1)
