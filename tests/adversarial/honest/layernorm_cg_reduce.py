# task: layernorm
# style: cooperative groups: tiled_partition and cg::reduce with cg::plus
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void layernorm(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
                          float* __restrict__ y, int rows, int cols, float eps) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    const int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (row >= rows) return;
    x += row * cols;
    y += row * cols;
    float sum = 0.f;
    for (int c = warp.thread_rank(); c < cols; c += warp.size()) sum += x[c];
    const float mean = cg::reduce(warp, sum, cg::plus<float>()) / cols;
    float squares = 0.f;
    for (int c = warp.thread_rank(); c < cols; c += warp.size()) {
        const float d = x[c] - mean;
        squares += d * d;
    }
    const float scale = rsqrtf(cg::reduce(warp, squares, cg::plus<float>{}) / cols + eps);
    for (int c = warp.thread_rank(); c < cols; c += warp.size()) y[c] = (x[c] - mean) * scale * gamma[c] + beta[c];
}

torch::Tensor run(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, double eps) {
    auto input = x.contiguous();
    auto y = torch::empty_like(input);
    const int cols = input.size(-1), rows = input.numel() / cols;
    layernorm<<<(rows + 3) / 4, 128>>>(input.data_ptr<float>(), gamma.data_ptr<float>(), beta.data_ptr<float>(),
                                       y.data_ptr<float>(), rows, cols, static_cast<float>(eps));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("run", &run, "layer norm", py::arg("x"), py::arg("gamma"), py::arg("beta"), py::arg("eps") = 1e-5);
}
"""
ext = load_inline(name="layernorm_cg", cpp_sources="", cuda_sources=source)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(160)

    def forward(self, x):
        return ext.run(x, gamma=self.norm.weight, beta=self.norm.bias, eps=self.norm.eps)
