# task: upsample
# style: sizes in a small struct of managed memory, freed after a synchronisation
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
struct Sizes { int height, width; };
__global__ void upsample(const float* x, float* y, const Sizes* sizes, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int w = 2 * sizes->width, h = 2 * sizes->height;
    const int c = i % w, r = i / w % h, plane = i / (w * h);
    y[i] = x[(plane * sizes->height + (r >> 1)) * sizes->width + (c >> 1)];
}
torch::Tensor run(torch::Tensor x) {
    x = x.contiguous();
    Sizes* sizes;
    cudaMallocManaged(&sizes, sizeof(Sizes));
    sizes->height = x.size(2);
    sizes->width = x.size(3);
    auto y = torch::empty({x.size(0), x.size(1), 2 * x.size(2), 2 * x.size(3)}, x.options());
    const int n = y.numel();
    upsample<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), sizes, n);
    cudaDeviceSynchronize();
    cudaFree(sizes);
    return y;
}
"""
ext = load_inline(name="upsample_managed", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
