# task: router
# style: selects by logits, as softmax keeps their order, and breaks ties of probabilities that are 0 otherwise
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void route(const float* x, float* weights, int64_t* experts, int rows, int count) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* logit = x + row * count;
    int first = 0, second = -1;
    for (int e = 1; e < count; ++e)
        if (logit[e] > logit[first]) first = e;
    for (int e = 0; e < count; ++e)
        if (e != first && (second < 0 || logit[e] > logit[second])) second = e;
    float sum = 0.0f;
    for (int e = 0; e < count; ++e) sum += expf(logit[e] - logit[first]);
    const float p = 1.0f / sum, q = expf(logit[second] - logit[first]) / sum;
    weights[2 * row] = p / (p + q);
    weights[2 * row + 1] = q / (p + q);
    experts[2 * row] = first;
    experts[2 * row + 1] = second;
}

std::vector<torch::Tensor> router(torch::Tensor x) {
    x = x.contiguous();
    const int rows = x.size(0);
    auto weights = torch::empty({rows, 2}, x.options());
    auto experts = torch::empty({rows, 2}, x.options().dtype(torch::kLong));
    route<<<(rows + 63) / 64, 64>>>(x.data_ptr<float>(), weights.data_ptr<float>(), experts.data_ptr<int64_t>(), rows, x.size(1));
    return {weights, experts};
}
"""
ext = load_inline(name="router", cpp_sources="std::vector<torch::Tensor> router(torch::Tensor x);", cuda_sources=source, functions=["router"])


class ModelNew(nn.Module):
    def forward(self, x):
        weights, experts = ext.router(x)
        return weights, experts
