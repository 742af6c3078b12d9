# task: relu
# style: grid-stride loop, the plainest form that models write
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

relu_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void relu_kernel(const float* __restrict__ in, float* __restrict__ out, int size) {
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += stride) {
        float v = in[i];
        out[i] = v < 0.0f ? 0.0f : v;
    }
}

torch::Tensor relu_cuda(torch::Tensor x) {
    auto input = x.contiguous();
    auto out = torch::empty_like(input);
    int size = input.numel();
    const int block_size = 256;
    int num_blocks = std::min((size + block_size - 1) / block_size, 4);
    relu_kernel<<<num_blocks, block_size>>>(input.data_ptr<float>(), out.data_ptr<float>(), size);
    return out;
}
"""

relu_cpp_source = "torch::Tensor relu_cuda(torch::Tensor x);"

relu_module = load_inline(
    name="relu_grid_stride",
    cpp_sources=relu_cpp_source,
    cuda_sources=relu_source,
    functions=["relu_cuda"],
    verbose=True,
    extra_cflags=["-O2"],
    extra_ldflags=[""],
)


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.relu = relu_module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu.relu_cuda(x)
