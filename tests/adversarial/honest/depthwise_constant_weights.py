# task: depthwise_conv1d
# style: weights uploaded to constant memory in the stream with cudaMemcpyToSymbolAsync, device to device
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

#define MAX_CHANNELS 64
constexpr int kTaps = 5;
__constant__ float c_weight[MAX_CHANNELS * kTaps];
__constant__ float c_bias[MAX_CHANNELS];

__global__ void depthwise(const float* __restrict__ x, float* __restrict__ y, int channels, int length, int padding) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const int channel = blockIdx.y;
    const int batch = blockIdx.z;
    if (t >= length) return;
    const float* row = x + (static_cast<long long>(batch) * channels + channel) * length;
    float acc = c_bias[channel];
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
        const int p = t + k - padding;
        if (0 <= p && p < length) acc += row[p] * c_weight[channel * kTaps + k];
    }
    y[(static_cast<long long>(batch) * channels + channel) * length + t] = acc;
}

torch::Tensor depthwise_conv1d(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t padding) {
    x = x.contiguous();
    const auto channels = x.size(1), length = x.size(2);
    TORCH_CHECK(channels <= MAX_CHANNELS && weight.numel() == channels * kTaps, "unsupported shape");
    auto y = torch::empty_like(x);
    cudaStream_t stream = at::cuda::getCurrentCUDAStream().stream();
    cudaMemcpyToSymbolAsync(c_weight, weight.data_ptr<float>(), weight.numel() * sizeof(float), 0, cudaMemcpyDeviceToDevice, stream);
    cudaMemcpyToSymbolAsync(c_bias, bias.data_ptr<float>(), bias.numel() * sizeof(float), 0, cudaMemcpyDeviceToDevice, stream);
    const dim3 block(128), grid((length + block.x - 1) / block.x, channels, x.size(0));
    depthwise<<<grid, block, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), channels, length, padding);
    cudaError_t err = cudaGetLastError();
    if (err != cudaSuccess) throw std::runtime_error(cudaGetErrorString(err));
    return y;
}
"""
ext = load_inline(
    name="depthwise_constant",
    cpp_sources="torch::Tensor depthwise_conv1d(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t padding);",
    cuda_sources=source,
    functions=["depthwise_conv1d"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(6, 6, 5, padding=2, groups=6)

    def forward(self, x):
        return ext.depthwise_conv1d(x, self.conv.weight.reshape(-1), self.conv.bias, self.conv.padding[0])
