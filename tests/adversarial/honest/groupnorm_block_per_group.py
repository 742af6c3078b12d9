# task: groupnorm
# style: one block per group, struct of statistics, helper functions
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

namespace groupnorm {

constexpr int kThreads = 128;

struct Shape {
    int channels;
    int area;
    int groups;
    __host__ __device__ int channels_per_group() const { return channels / groups; }
    __host__ __device__ int group_size() const { return channels_per_group() * area; }
};

__device__ float block_sum(float value) {
    __shared__ float scratch[kThreads];
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (int step = kThreads / 2; step > 0; step >>= 1) {
        if (threadIdx.x < step) scratch[threadIdx.x] += scratch[threadIdx.x + step];
        __syncthreads();
    }
    const float total = scratch[0];
    __syncthreads();
    return total;
}

__global__ void kernel(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                       float* __restrict__ y, Shape shape, float eps) {
    const int size = shape.group_size();
    const int group = blockIdx.x % shape.groups;
    const size_t start = static_cast<size_t>(blockIdx.x) * size;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < size; i += kThreads) sum += x[start + i];
    const float mean = block_sum(sum) / size;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < size; i += kThreads) {
        const float d = x[start + i] - mean;
        squares += d * d;
    }
    const float factor = rsqrtf(block_sum(squares) / size + eps);

    for (int i = threadIdx.x; i < size; i += kThreads) {
        const int channel = group * shape.channels_per_group() + i / shape.area;
        y[start + i] = (x[start + i] - mean) * factor * weight[channel] + bias[channel];
    }
}

}  // namespace groupnorm

torch::Tensor group_norm_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    groupnorm::Shape shape{(int)dense.size(1), (int)(dense.size(2) * dense.size(3)), (int)groups};
    const int blocks = dense.size(0) * groups;
    groupnorm::kernel<<<blocks, groupnorm::kThreads>>>(dense.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), shape, (float)eps);
    return y;
}
"""
ext = load_inline(
    name="group_norm_ext",
    cpp_sources="torch::Tensor group_norm_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps);",
    cuda_sources=source,
    functions=["group_norm_forward"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(3, 12)

    def forward(self, x):
        return ext.group_norm_forward(x, self.norm.weight, self.norm.bias, self.norm.num_groups, self.norm.eps)
