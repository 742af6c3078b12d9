"""Models with other arguments, other weights and statistics of their own, and sizes that nobody has declared."""

from dataclasses import replace
from typing import Any

import pytest

from musadata.records import ErrorClass
from musadata.verifier import Verifier
from musadata.verifier.policies import decide, load_policy
from musadata.verifier.protocol.variants import DERIVED, INFINITE, REBUILT, RELOADED
from tests.verifier.conftest import CONFIG

ROWS = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void rows(const float* x, const float* w, float* y, int n, float eps) {
    const float* from = x + blockIdx.x * n;
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) sum += from[i] * from[i];
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = from[i] * w[i] * rsqrtf(sum / n + eps);
}
torch::Tensor run(torch::Tensor x, torch::Tensor w, double eps) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.size(1);
    rows<<<dense.size(0), 64>>>(dense.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), n, (float)eps);
    return y;
}
"""
ext = load_inline(
    name="rows", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor w, double eps);", cuda_sources=source,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, size, eps=1e-3):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return ext.run(x, self.weight, self.eps)
'''

NORM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size, eps=1e-3):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(1, keepdim=True) + self.eps) * self.weight


def get_inputs():
    return [torch.randn(12, 40)]


def get_init_inputs():
    return [40]
"""

TRAINED = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(40)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(12, 40)]


def get_init_inputs():
    return []
"""

COLUMNS = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void columns(const float* x, const float* w, const float* b, float* mean, float* var, float* y, int rows,
                        int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    double sum = 0.0, squares = 0.0;
    for (int r = 0; r < rows; ++r) sum += x[r * cols + c];
    double middle = sum / rows;
    for (int r = 0; r < rows; ++r) squares += (x[r * cols + c] - middle) * (x[r * cols + c] - middle);
    double scale = 1.0 / sqrt(squares / rows + 1e-5);
    for (int r = 0; r < rows; ++r) y[r * cols + c] = (float)((x[r * cols + c] - middle) * scale) * w[c] + b[c];
    mean[c] = 0.9f * mean[c] + 0.1f * (float)middle;
    var[c] = 0.9f * var[c] + 0.1f * (float)(squares / (rows - 1));
}
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor mean, torch::Tensor var) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int rows = dense.size(0), cols = dense.size(1);
    columns<<<(cols + 63) / 64, 64>>>(dense.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                      mean.data_ptr<float>(), var.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""
ext = load_inline(
    name="columns", cuda_sources=source, functions=["run"],
    cpp_sources="torch::Tensor run(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor);",
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(40)

    def forward(self, x):
        norm = self.norm
        norm.num_batches_tracked.add_(1)
        return ext.run(x, norm.weight, norm.bias, norm.running_mean, norm.running_var)
'''


@pytest.fixture(scope="module")
def strict():
    with Verifier(replace(CONFIG, policy="strict")) as verifier:
        yield verifier


def wrong_at(verdict: Any) -> set[str]:
    return {one.condition for one in verdict.facts.findings if one.rule == "correctness.values"}


def test_arguments_that_a_reference_leaves_to_their_defaults_are_other_ones(strict):
    assert strict.verify_text(NORM, ROWS).accepted
    verdict = strict.verify_text(NORM, ROWS.replace("self.weight, self.eps)", "self.weight, 1e-3)"))
    assert verdict.error_class is ErrorClass.CORRECTNESS and wrong_at(verdict) == {REBUILT}
    assert decide(verdict.facts, load_policy("paper")).accepted


def test_what_is_made_of_weights_before_they_change_is_of_no_use(strict):
    kept = ROWS.replace("self.eps = eps", "self.eps, self.kept = eps, None").replace(
        "        return ext.run(x, self.weight,",
        "        self.kept = self.weight.detach().clone() if self.kept is None else self.kept\n"
        "        return ext.run(x, self.kept,",
    )
    verdict = strict.verify_text(NORM, kept)
    assert verdict.error_class is ErrorClass.CORRECTNESS and wrong_at(verdict) == {RELOADED}
    assert decide(verdict.facts, load_policy("paper")).accepted


def test_statistics_may_be_kept_and_batches_counted_as_the_reference_does(strict):
    verdict = strict.verify_text(TRAINED, COLUMNS)
    assert verdict.accepted, verdict.findings


def test_what_goes_wrong_without_a_word_at_sizes_less_even_than_declared_is_a_fact(strict, relu_reference, relu):
    reference = relu_reference.replace("torch.randn(37, 53)", "torch.randn(batch, width)")
    reference = reference.replace("class Model", "batch = 4096\nwidth = 32768\n\n\nclass Model")
    relying = relu.replace("if (i < n) y[i]", "y[i]").replace("(n + 255) / 256, 256", "n / 32, 32")
    verdict = strict.verify_text(reference, relying)
    assert not verdict.accepted and {one.condition for one in verdict.facts.findings} == {DERIVED}
    refusing = relying.replace("int n = dense.numel();", 'int n = dense.numel(); TORCH_CHECK(n % 32 == 0, "even");')
    assert strict.verify_text(reference, refusing).accepted


SOFTMAX = NORM.replace("x * torch.rsqrt(x.square().mean(1, keepdim=True) + self.eps) * self.weight", "x.logsumexp(1)")


def test_a_row_that_begins_with_minus_infinity_need_not_become_nan(strict):
    rows = ROWS.replace("torch::empty_like(dense)", "torch::empty({dense.size(0)}, dense.options())")
    start = rows.index("    float sum"), rows.index("}\ntorch::Tensor")
    body = "    if (threadIdx.x) return;\n    float most = -INFINITY, sum = 0.0f;\n"
    body += "    for (int i = 0; i < n; ++i) {\n        float now = fmaxf(most, from[i]);\n"
    body += "        sum = sum * expf(most - now) + expf(from[i] - now);\n        most = now;\n    }\n"
    body += "    y[blockIdx.x] = most + logf(sum);\n"
    spoilt = rows[: start[0]] + body + rows[start[1] :]
    verdict = strict.verify_text(SOFTMAX, spoilt)
    assert [(one.rule, one.condition) for one in verdict.facts.findings] == [("correctness.nonfinite", INFINITE)]
    guarded = spoilt.replace("float now =", "if (from[i] == -INFINITY) continue;\n        float now =")
    assert strict.verify_text(SOFTMAX, guarded).accepted
