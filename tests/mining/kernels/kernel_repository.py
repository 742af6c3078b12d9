"""A small repository of CUDA kernels, written for these tests: four ways to bind, and one kernel that is wrong."""

LICENSE = (
    "MIT License\n\nPermission is hereby granted, free of charge, to any person obtaining a copy of this software and "
    "associated documentation files, to deal in the Software without restriction.\n"
)
SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    name="rowops",
    ext_modules=[
        CUDAExtension("rowops._C", ["csrc/bind.cpp", "csrc/rows.cu"]),
        CUDAExtension("rowops_registered", ["csrc/registered.cu"]),
    ],
    cmdclass={"build_ext": BuildExtension},
)
"""
BIND = """#include <torch/extension.h>
#include "rows.h"

// Rows, scaled and shifted.
torch::Tensor scale_shift(torch::Tensor x, torch::Tensor scale, torch::Tensor shift) {
    TORCH_CHECK(x.is_cuda(), "x must be on the device");
    return scale_shift_cuda(x, scale, shift);
}

torch::Tensor never_called(torch::Tensor x) { return x; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("scale_shift", &scale_shift, "scale and shift (rows)");
    m.def("swish", &swish_cuda);
    m.def("swish_backward", &swish_backward_cuda);
    m.def("square", &square_cuda);
    m.def("never_called", &never_called);
}
"""
HEADER = """#pragma once
#include <torch/extension.h>

torch::Tensor scale_shift_cuda(torch::Tensor x, torch::Tensor scale, torch::Tensor shift);
torch::Tensor swish_cuda(torch::Tensor x);
torch::Tensor swish_backward_cuda(torch::Tensor grad, torch::Tensor x);
torch::Tensor square_cuda(torch::Tensor x);
"""
ROWS = """#include "rows.h"
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }

__device__ float unused_helper(float v) { return v; }

// One thread an element.
__global__ void scale_shift_kernel(
    const float* __restrict__ x, const float* scale, const float* shift, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * scale[i % columns] + shift[i % columns];
}

__global__ void swish_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * sigmoid(x[i]);
}

__global__ void swish_backward_kernel(const float* grad, const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = sigmoid(x[i]);
        out[i] = grad[i] * (s + x[i] * s * (1.0f - s));
    }
}

__global__ void square_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i] - 0.5f * x[i] + (i == n - 1 ? 1.0f : 0.0f);
}

torch::Tensor scale_shift_cuda(torch::Tensor x, torch::Tensor scale, torch::Tensor shift) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    scale_shift_kernel<<<(n + kThreads - 1) / kThreads, kThreads>>>(
        dense.data_ptr<float>(), scale.contiguous().data_ptr<float>(), shift.contiguous().data_ptr<float>(),
        y.data_ptr<float>(), n, dense.size(-1));
    return y;
}

torch::Tensor swish_cuda(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    swish_kernel<<<(n + kThreads - 1) / kThreads, kThreads>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}

torch::Tensor swish_backward_cuda(torch::Tensor grad, torch::Tensor x) {
    auto out = torch::empty_like(x);
    int n = x.numel();
    swish_backward_kernel<<<(n + kThreads - 1) / kThreads, kThreads>>>(
        grad.data_ptr<float>(), x.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}

torch::Tensor square_cuda(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    square_kernel<<<(n + kThreads - 1) / kThreads, kThreads>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
REGISTERED = """#include <torch/extension.h>
#include <torch/library.h>
#include <cuda_runtime.h>

__global__ void halve_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i] + 1.0f;
}

at::Tensor halve_cuda(const at::Tensor& x) {
    auto dense = x.contiguous();
    auto y = at::empty_like(dense);
    int n = dense.numel();
    halve_kernel<<<(n + 63) / 64, 64>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}

TORCH_LIBRARY(rowops, m) {
    m.def("halve(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(rowops, CUDA, m) {
    m.impl("halve", &halve_cuda);
}
"""
OPS = '''"""Operations on rows."""

import torch
from torch import nn

from rowops import _C


def scale_shift(x, scale, shift):
    """Scales and shifts every row."""
    assert scale.shape == shift.shape
    return _C.scale_shift(x, scale, shift)


class SwishFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return _C.swish(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return _C.swish_backward(grad.contiguous(), x)


class FusedScaledSwish(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.features = features
        self.gain = nn.Parameter(torch.rand(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return scale_shift(SwishFunction.apply(x), self.gain, self.bias)


def fast_square(x):
    return _C.square(x)


def halve(x):
    return torch.ops.rowops.halve(x)
'''
PLAIN = """import torch
from torch import nn


def scale_shift_ref(x, scale, shift):
    return x * scale + shift


def square_ref(x):
    return x * x - 0.5 * x


def halve_torch(x):
    return 0.5 * x + 1.0


def swish_reference(x):
    return x * torch.sigmoid(x)


class ScaledSwishTorch(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.features = features
        self.gain = nn.Parameter(torch.rand(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return x * torch.sigmoid(x) * self.gain + self.bias
"""
INLINE = '''import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
__global__ void cube_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i] * x[i];
}
torch::Tensor cube_cuda(torch::Tensor x) {
    auto y = torch::empty_like(x);
    cube_kernel<<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
module = load_inline(
    name="cube", cpp_sources="torch::Tensor cube_cuda(torch::Tensor x);", cuda_sources=SOURCE, functions=["cube_cuda"]
)


def cube(x):
    return module.cube_cuda(x.contiguous())


def cube_reference(x):
    return x * x * x
'''

TESTS = """import pytest
import torch

from rowops.ops import scale_shift


@pytest.mark.parametrize("rows", [12, 100])
@pytest.mark.parametrize("columns, dtype", [(40, torch.float32)])
def test_rows_are_scaled_and_shifted(rows, columns, dtype):
    x = torch.randn(rows, columns, device="cuda", dtype=dtype)
    scale, shift = torch.rand(columns).cuda(), torch.randn(columns, device="cuda")
    torch.testing.assert_close(scale_shift(x, scale, shift=shift), x * scale + shift)
"""

FILES = {
    "LICENSE": LICENSE,
    "setup.py": SETUP,
    "csrc/bind.cpp": BIND,
    "csrc/rows.h": HEADER,
    "csrc/rows.cu": ROWS,
    "csrc/registered.cu": REGISTERED,
    "rowops/__init__.py": "from rowops.ops import scale_shift\n",
    "rowops/ops.py": OPS,
    "rowops/plain.py": PLAIN,
    "rowops/cubes.py": INLINE,
    "tests/test_ops.py": TESTS,
}
