# task: leaky_relu
# style: CUDA source put together with the shape and slope in it, one extension per width in a dictionary
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

TEMPLATE = """
#include <torch/extension.h>
#define N_COLS {cols}
static constexpr float kSlope = {slope}f;
__global__ void leaky_{cols}(const float* __restrict__ x, float* __restrict__ y, int rows) {{
    const int row = blockIdx.x;
    for (int c = threadIdx.x; c < N_COLS && row < rows; c += blockDim.x) {{
        const float v = x[row * N_COLS + c];
        y[row * N_COLS + c] = v < 0.0f ? v * kSlope : v;
    }}
}}
torch::Tensor leaky(torch::Tensor x) {{
    auto y = torch::empty_like(x);
    leaky_{cols}<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0));
    return y;
}}
"""
_modules = {}


def get_module(cols: int, slope: float):
    key = (cols, slope)
    if key not in _modules:
        _modules[key] = load_inline(
            name=f"leaky_relu_{cols}",
            cpp_sources="torch::Tensor leaky(torch::Tensor x);",
            cuda_sources=TEMPLATE.format(cols=cols, slope=slope),
            functions=["leaky"],
        )
    return _modules[key]


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = float(slope)

    def forward(self, x):
        x = x.contiguous()
        return get_module(x.size(-1), self.slope).leaky(x)
