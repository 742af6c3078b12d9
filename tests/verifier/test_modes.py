"""Reference and candidate are judged in the mode that their constructors leave."""

import pytest

from musadata.records import ErrorClass
from musadata.verifier.policies import decide, load_policy

REFERENCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(37, 5)]


def get_init_inputs():
    return []
"""
IN_EVALUATION = REFERENCE.replace("BatchNorm1d(5)\n", "BatchNorm1d(5)\n        self.eval()\n")
CANDIDATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void norm_kernel(const float* x, const float* w, const float* b, const float* mean, const float* var,
                            float* y, int rows, int columns) {
  int c = threadIdx.x;
  float m = 0.0f, v = 0.0f;
  if (mean) { m = mean[c]; v = var[c]; }
  else {
    for (int r = 0; r < rows; ++r) m += x[r * columns + c];
    m /= rows;
    for (int r = 0; r < rows; ++r) v += (x[r * columns + c] - m) * (x[r * columns + c] - m);
    v /= rows;
  }
  for (int r = 0; r < rows; ++r) y[r * columns + c] = (x[r * columns + c] - m) * rsqrtf(v + 1e-5f) * w[c] + b[c];
}
torch::Tensor normalise(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor mean, torch::Tensor var,
                   bool batch) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  norm_kernel<<<1, x.size(1)>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
      batch ? nullptr : mean.data_ptr<float>(), var.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
  return y;
}
"""
declaration = source[source.index("torch::Tensor normalise"):].split(" {")[0] + ";"
ext = load_inline(name="norm_ext", cpp_sources=declaration, cuda_sources=source, functions=["normalise"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        n = self.norm
        return ext.normalise(x, n.weight, n.bias, n.running_mean, n.running_var, BATCH)
'''


@pytest.mark.parametrize(
    ("reference", "batch", "right"),
    [
        (REFERENCE, "True", True),
        (REFERENCE, "False", False),
        (REFERENCE, "self.training", True),
        (IN_EVALUATION, "False", True),
        (IN_EVALUATION, "True", False),
        (IN_EVALUATION, "self.training", False),  # its constructor leaves training mode
    ],
)
def test_a_batch_norm_is_judged_in_the_mode_of_the_constructor(verifier, reference, batch, right):
    verdict = verifier.verify_text(reference, CANDIDATE.replace("BATCH", batch))
    assert verdict.accepted == right, verdict.feedback
    assert right or "correctness.values" in {finding.rule for finding in verdict.findings}


def test_dropout_in_training_mode_has_no_right_answer_and_the_feedback_says_how_to_get_one(verifier, relu):
    text = REFERENCE.replace("BatchNorm1d(5)", "Dropout()")
    verdict = verifier.verify_text(text, relu)
    assert (verdict.accepted, verdict.error_class) == (False, ErrorClass.INFRA)
    assert "end its __init__ with self.eval()" in verdict.feedback


READS_STATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void dot(const float* x, const float* w, float* y, int rows, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  float sum = 0.0f;
  for (int j = 0; j < width; ++j) sum += x[i * width + j] * w[j];
  y[i] = sum;
}
torch::Tensor run(torch::Tensor x, torch::Tensor w) {
  auto y = torch::empty({x.size(0)}, x.options());
  const int rows = x.size(0), width = x.size(1);
  dot<<<(rows + 63) / 64, 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), rows, width);
  return y;
}
"""
ext = load_inline(name="dot", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor w);",
                  cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(33))
        self.kept = self.weight.detach().clone()

    def forward(self, x):
        return ext.run(x.contiguous(), WEIGHT.to(x.device))
'''
DOT = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(33))

    def forward(self, x):
        return x @ self.weight


def get_inputs():
    return [torch.randn(70, 33)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("weight", "right", "accepted"),
    [("self.weight", True, ["paper", "audit"]), ("self.kept", True, ["audit"]), ("(1.5 * self.kept)", False, [])],
)
def test_a_program_that_reads_its_parameters_when_it_is_made_is_right_as_constructed(verifier, weight, right, accepted):
    facts = verifier.verify_text(DOT, READS_STATE.replace("WEIGHT", weight)).facts
    assert facts.right == right
    assert [name for name in ("paper", "audit") if decide(facts, load_policy(name)).accepted] == accepted
