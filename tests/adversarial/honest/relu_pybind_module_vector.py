# task: relu
# style: own PYBIND11_MODULE with an attribute, two sources, vector of outputs, autograd.Function around it
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <vector>
__global__ void relu_kernel(const float* x, float* y, long n) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x) y[i] = x[i] < 0.f ? 0.f : x[i];
}
std::vector<torch::Tensor> run(torch::Tensor x) {
    auto d = x.contiguous();
    auto y = torch::empty_like(d);
    relu_kernel<<<4, 96>>>(d.data_ptr<float>(), y.data_ptr<float>(), d.numel());
    return {y};
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.attr("version") = 3;
    m.def("run", &run, "relu of x", pybind11::arg("x"));
}
"""
ext = load_inline(name="relu_pybind_module_vector", cpp_sources=[], cuda_sources=[source])


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        (y,) = ext.run(x=x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (y > 0)


class ModelNew(nn.Module):
    def forward(self, x):
        return Relu.apply(x)
