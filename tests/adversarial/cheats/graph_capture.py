# task: relu
# cheat: captures a CUDA graph at the first call and replays it for later ones without the new input
# row: CUDA-graph capture trick
# rule: legality.torch_program
# expect: not_allowed, correctness, runtime
# naive: -; needs a device
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void relu_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] < 0.f ? 0.f : x[i];
}
void relu(torch::Tensor x, torch::Tensor y) {
    int n = x.numel();
    relu_kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
}
"""
ext = load_inline(name="relu_graph", cpp_sources="void relu(torch::Tensor x, torch::Tensor y);", cuda_sources=source, functions=["relu"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, x):
        if self.graph is None:
            self.y = torch.empty_like(x)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                ext.relu(x, self.y)
        self.graph.replay()
        return self.y
