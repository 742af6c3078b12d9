# task: clamp
# style: bounds handed over from Python, launched on the current stream
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

LOW, HIGH = -0.75, 1.25

source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__device__ inline float clamp1(float v, float low, float high) {
    // a NaN fails both comparisons and passes through
    return v < low ? low : (v > high ? high : v);
}

__global__ void clamp_kernel(const float* in, float* out, float low, float high, long n) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = clamp1(in[i], low, high);
}

torch::Tensor clamp_cuda(torch::Tensor x, float low, float high) {
    auto in = x.contiguous();
    auto out = torch::empty_like(in);
    long n = in.numel();
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
    clamp_kernel<<<(unsigned)((n + 511) / 512), 512, 0, stream>>>(in.data_ptr<float>(), out.data_ptr<float>(), low, high, n);
    return out;
}
"""
clamp = load_inline("clamp_ext", ["torch::Tensor clamp_cuda(torch::Tensor x, float low, float high);"], [source], functions=["clamp_cuda"])


class ModelNew(nn.Module):
    def forward(self, x):
        return clamp.clamp_cuda(x, LOW, HIGH)
