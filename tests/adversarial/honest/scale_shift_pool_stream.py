# task: scale_shift
# style: a stream of its own from the pool, ordered by events before and after
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>

__global__ void scale_shift(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b,
                            float* __restrict__ y, int n, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int c = i % d;
        y[i] = fmaf(x[i], w[c], b[c]);
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto input = x.contiguous();
    auto y = torch::empty_like(input);
    const int n = input.numel(), d = input.size(-1);

    cudaStream_t caller = at::cuda::getCurrentCUDAStream();
    cudaStream_t side = at::cuda::getStreamFromPool().stream();
    cudaEvent_t ready, done;
    cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&done, cudaEventDisableTiming);

    cudaEventRecord(ready, caller);
    cudaStreamWaitEvent(side, ready, 0);
    scale_shift<<<(n + 255) / 256, 256, 0, side>>>(input.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), n, d);
    cudaEventRecord(done, side);
    cudaStreamWaitEvent(caller, done, 0);

    cudaEventDestroy(ready);
    cudaEventDestroy(done);
    return y;
}
"""
ext = load_inline(name="scale_shift_stream", cpp_sources="torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b);", cuda_sources=source, functions=["forward"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(96))
        self.bias = nn.Parameter(torch.zeros(96))

    def forward(self, x):
        return ext.forward(x, self.weight, self.bias)
