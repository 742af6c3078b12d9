# task: softmax
# style: dynamic shared memory over 48 KB by attribute, two streams joined by an event
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
__global__ void softmax_rows(const float* x, float* y, int width) {
    extern __shared__ float row[];
    __shared__ float total, top;
    const float* in = x + (size_t)blockIdx.x * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x) row[c] = in[c];
    __syncthreads();
    if (threadIdx.x == 0) {
        float m = row[0];
        for (int c = 1; c < width; ++c) m = (row[c] > m || row[c] != row[c]) ? row[c] : m;
        top = m;
        float s = 0.f;
        for (int c = 0; c < width; ++c) s += expf(row[c] - m);
        total = s;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < width; c += blockDim.x) y[(size_t)blockIdx.x * width + c] = expf(row[c] - top) / total;
}
torch::Tensor run(torch::Tensor x) {
    const at::cuda::CUDAGuard guard(x.device());
    auto d = x.contiguous();
    auto y = torch::empty_like(d);
    int rows = d.size(0), width = d.size(1);
    size_t bytes = width * sizeof(float);
    if (bytes > 48 * 1024) cudaFuncSetAttribute(softmax_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    int half = rows / 2;
    cudaStream_t main = at::cuda::getCurrentCUDAStream(), side;
    cudaEvent_t ready, done;
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
    cudaEventRecord(ready, main);
    cudaStreamWaitEvent(side, ready, 0);
    if (half) softmax_rows<<<half, 128, bytes, side>>>(d.data_ptr<float>(), y.data_ptr<float>(), width);
    cudaEventRecord(done, side);
    softmax_rows<<<rows - half, 128, bytes, main>>>(d.data_ptr<float>() + (size_t)half * width, y.data_ptr<float>() + (size_t)half * width, width);
    cudaStreamWaitEvent(main, done, 0);
    cudaEventDestroy(ready);
    cudaEventDestroy(done);
    cudaStreamDestroy(side);
    return y;
}
"""
ext = load_inline(name="softmax_dynamic_shared_streams", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
