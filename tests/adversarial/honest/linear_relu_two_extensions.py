# task: linear_relu
# style: two extensions in one module, kept on the class and built on first use
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline



class Kernels:
    """Builds each extension once, when it is first asked for."""

    _built = {}
    SOURCES = {
        "linear": (
            "torch::Tensor linear(torch::Tensor x, torch::Tensor w, c10::optional<torch::Tensor> bias);",
            r"""
#include <torch/extension.h>
__global__ void linear_kernel(const float* x, const float* w, const float* bias, float* y, int rows, int outs, int ins) {
    const int o = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (o >= outs || r >= rows) return;
    float acc = bias ? bias[o] : 0.0f;
    #pragma unroll 4
    for (int i = 0; i < ins; ++i) acc += __ldg(&x[r * ins + i]) * __ldg(&w[o * ins + i]);
    y[r * outs + o] = acc;
}
torch::Tensor linear(torch::Tensor x, torch::Tensor w, c10::optional<torch::Tensor> bias) {
    const int rows = x.size(0), ins = x.size(1), outs = w.size(0);
    auto y = x.new_empty({rows, outs});
    const float* b = bias.has_value() ? bias.value().data_ptr<float>() : nullptr;
    linear_kernel<<<dim3((outs + 63) / 64, rows), 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), b, y.data_ptr<float>(), rows, outs, ins);
    return y;
}
""",
        ),
        "relu_half": (
            "void relu_half_(torch::Tensor& y);",
            r"""
#include <torch/extension.h>
__global__ void relu_half_kernel(float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (y[i] < 0.f ? 0.f : y[i]) * 0.5f;
}
void relu_half_(torch::Tensor& y) {
    const int n = y.numel();
    relu_half_kernel<<<(n + 127) / 128, 128>>>(y.data_ptr<float>(), n);
}
""",
        ),
    }

    @classmethod
    def get(cls, name):
        if name not in cls._built:
            declaration, source = cls.SOURCES[name]
            function = "linear" if name == "linear" else "relu_half_"
            cls._built[name] = load_inline(
                name=f"two_extensions_{name}", cpp_sources=declaration, cuda_sources=source, functions=[function]
            )
        return cls._built[name]


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(72, 50)

    def forward(self, x):
        y = Kernels.get("linear").linear(x.contiguous(), self.linear.weight, self.linear.bias)
        Kernels.get("relu_half").relu_half_(y)
        return y
