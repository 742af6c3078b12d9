# task: relu
# style: launch settings in a dataclass and a named tuple; an operator defined in Python, with annotations as text
import functools
from collections import namedtuple
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline


@dataclass(frozen=True)
class LaunchSettings:
    threads: int = 256
    tags: list = field(default_factory=list)


class Limits(NamedTuple):
    blocks: int = 1024


Names = namedtuple("Names", "module function")
NAMES = Names("relu_dataclass", "relu_forward")
SETTINGS = LaunchSettings()

source = """
#include <torch/extension.h>

__global__ void relu_kernel(const float* in, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        out[i] = in[i] < 0.0f ? 0.0f : in[i];
    }
}

torch::Tensor relu_forward(torch::Tensor x, int threads, int most) {
    auto in = x.contiguous();
    auto out = torch::empty_like(in);
    int n = in.numel();
    int blocks = std::min((n + threads - 1) / threads, most);
    relu_kernel<<<blocks, threads>>>(in.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""


@functools.lru_cache(maxsize=None)
def module():
    declaration = "torch::Tensor relu_forward(torch::Tensor x, int threads, int most);"
    return load_inline(name=NAMES.module, cpp_sources=declaration, cuda_sources=source, functions=[NAMES.function])


def logged(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)

    return inner


@torch.library.custom_op("relu_dataclass::relu", mutates_args=())
def relu(x: "torch.Tensor") -> "torch.Tensor":
    return module().relu_forward(x, SETTINGS.threads, Limits().blocks)


@relu.register_fake
def _(x):
    return torch.empty_like(x)


class ModelNew(nn.Module):
    @logged
    def forward(self, x):
        return relu(x)
