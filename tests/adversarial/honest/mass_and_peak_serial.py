# task: mass_and_peak
# style: a thread for each row, two outputs of which one is the same for all inputs
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <vector>

__global__ void mass_and_peak(const float* x, float* mass, float* peak, int cols) {
    const float* row = x + blockIdx.x * cols;
    float highest = -INFINITY;
    for (int i = 0; i < cols; ++i) highest = row[i] > highest || isnan(row[i]) ? row[i] : highest;
    float sum = 0.0f, all = 0.0f;
    for (int i = 0; i < cols; ++i) sum += expf(row[i] - highest);
    for (int i = 0; i < cols; ++i) all += expf(row[i] - highest) / sum;
    mass[blockIdx.x] = all;
    peak[blockIdx.x] = highest;
}

std::vector<torch::Tensor> run(torch::Tensor x) {
    x = x.contiguous();
    auto mass = torch::empty({x.size(0)}, x.options());
    auto peak = torch::empty({x.size(0)}, x.options());
    mass_and_peak<<<x.size(0), 1>>>(x.data_ptr<float>(), mass.data_ptr<float>(), peak.data_ptr<float>(), x.size(1));
    return {mass, peak};
}
"""
ext = load_inline(name="mass_and_peak", cpp_sources="std::vector<torch::Tensor> run(torch::Tensor x);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        mass, peak = ext.run(x)
        return mass, peak
