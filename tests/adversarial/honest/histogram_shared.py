# task: histogram
# style: f-string with doubled braces, counts in shared memory, then atomics
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

BINS = 16
src = f"""
#include <torch/extension.h>
#define BINS {BINS}
__global__ void hist(const float* __restrict__ x, float* __restrict__ h, int n, float lo, float hi) {{
    __shared__ unsigned int local[BINS];
    if (threadIdx.x < BINS) local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {{
        float v = x[i];
        if (v >= lo && v <= hi) {{
            int b = (int)((v - lo) * BINS / (hi - lo));
            atomicAdd(&local[min(b, BINS - 1)], 1u);
        }}
    }}
    __syncthreads();
    if (threadIdx.x < BINS) atomicAdd(&h[threadIdx.x], (float)local[threadIdx.x]);
}}
torch::Tensor histogram(torch::Tensor x, double lo, double hi) {{
    x = x.contiguous();
    auto h = torch::zeros({{BINS}}, x.options());
    int n = x.numel();
    hist<<<std::min(32, (n + 255) / 256), 256>>>(x.data_ptr<float>(), h.data_ptr<float>(), n, (float)lo, (float)hi);
    return h;
}}
"""
ext = load_inline(name=f"hist{BINS}", cpp_sources="torch::Tensor histogram(torch::Tensor x, double lo, double hi);", cuda_sources=src, functions=["histogram"])
class ModelNew(nn.Module):
    def forward(self, x):
        return ext.histogram(x, -2.0, 2.0)
