"""One verifier for all tests: its processes take seconds to get warm."""

from pathlib import Path

import pytest

from musadata.config import BackendType, VerifierConfig
from musadata.sandbox import Sandbox
from musadata.verifier import Verifier
from musadata.verifier.task_from_reference import PRELOAD, read_task

CONFIG = VerifierConfig(backend=BackendType.EMULATED, seconds=10.0, compile_seconds=120.0)

RELU = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void relu_kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}
torch::Tensor relu(torch::Tensor x) {
  auto dense = x.contiguous();
  auto y = torch::empty_like(dense);
  int n = dense.numel();
  relu_kernel<<<(n + 255) / 256, 256>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
"""
ext = load_inline(name="relu_ext", cpp_sources="torch::Tensor relu(torch::Tensor x);", cuda_sources=source,
                  functions=["relu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.relu(x)
'''

REFERENCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(37, 53)]


def get_init_inputs():
    return []
"""


@pytest.fixture(scope="session")
def relu():
    return RELU


@pytest.fixture(scope="session")
def relu_reference():
    return REFERENCE


@pytest.fixture(scope="session")
def verifier():
    with Verifier(CONFIG) as verifier:
        yield verifier


@pytest.fixture(scope="session")
def make_task():
    """Text or path of a reference -> task."""
    with Sandbox(PRELOAD) as sandbox:

        def make(reference):
            text = reference.read_text() if isinstance(reference, Path) else reference
            return read_task(text, CONFIG, sandbox)

        yield make


@pytest.fixture(scope="session")
def relu_task(make_task):
    return make_task(REFERENCE)
