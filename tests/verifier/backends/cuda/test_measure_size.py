"""On a real device: a candidate that has the reference's sizes written into it is judged at these sizes alone."""

import pytest

from musadata.config import BackendType, VerifierConfig
from musadata.verifier import Verifier
from musadata.verifier.backends.cuda.cuda_backend import find_device

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_device() is None, reason="no CUDA device")]
REFERENCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sum(x, dim=1)


def get_inputs():
    return [torch.rand(2048, 3000)]


def get_init_inputs():
    return []
"""
CANDIDATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
constexpr int COLUMNS = 3000;
__global__ void sum_rows(const float* x, float* y, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = 0; i < COLUMNS; ++i) sum += x[row * COLUMNS + i];
  if (WRITES) y[row] = sum;
}
torch::Tensor run(torch::Tensor x) {
  TORCH_CHECK(x.size(1) == COLUMNS, "written for 3000 columns");
  auto y = torch::empty({x.size(0)}, x.options());
  sum_rows<<<(x.size(0) + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0));
  return y;
}
"""
ext = load_inline(name="sum_rows", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=source,
                  functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
'''


@pytest.mark.parametrize(("writes", "rules"), [("true", []), ("row < 2000", ["measure.values"])])
def test_memory_of_earlier_calls_does_not_pass_for_an_output(writes, rules):
    """The honest one is no decoy, though its replay without kernels is given the memory of its right output."""
    with Verifier(VerifierConfig(backend=BackendType.CUDA)) as verifier:
        verdict = verifier.verify_text(REFERENCE, CANDIDATE.replace("WRITES", writes))
    assert [finding.rule.replace("nonfinite", "values") for finding in verdict.findings] == rules
    assert verdict.accepted == (not rules)
