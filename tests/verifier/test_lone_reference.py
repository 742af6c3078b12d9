"""A reference that comes alone is judged at any size: at smaller ones, and it says which."""

from dataclasses import replace

import pytest

from musadata.records import ErrorClass
from musadata.verifier.policies import decide, load_policy
from musadata.verifier.task_from_reference import read_reference
from tests.verifier.conftest import CONFIG


@pytest.fixture(scope="module")
def large(relu_reference):
    text = relu_reference.replace("torch.randn(37, 53)", "torch.randn(batch, width)")
    return text.replace("class Model", "batch = 4096\nwidth = 32768\n\n\nclass Model")


def test_a_candidate_that_takes_sizes_from_its_arguments_is_judged_at_smaller_ones(verifier, large, relu):
    verdict = verifier.verify_text(large, relu)
    assert verdict.accepted, verdict.findings
    assert "batch (line 6) 4096 to " in verdict.shrunk
    assert "width (line 7) 32768 to " in verdict.shrunk


def test_a_wrong_candidate_is_rejected_at_any_size(verifier, large, relu):
    verdict = verifier.verify_text(large, relu.replace("? 0.0f", "? -0.01f"))
    assert verdict.error_class is ErrorClass.CORRECTNESS
    assert verdict.shrunk


def test_a_candidate_that_relies_on_powers_of_two_is_judged_at_such_sizes(verifier, large, relu):
    relying = relu.replace("if (i < n) y[i]", "y[i]").replace("(n + 255) / 256, 256", "n / 32, 32")
    verdict = verifier.verify_text(large, relying)
    assert verdict.facts.right and decide(verdict.facts, load_policy("paper")).accepted, verdict.findings
    assert " 4096 to 64" in verdict.shrunk or " 4096 to 128" in verdict.shrunk


def test_a_candidate_with_sizes_written_into_it_cannot_be_judged_and_is_told_why(verifier, large, relu):
    verdict = verifier.verify_text(large, relu.replace("int n = dense.numel()", "int n = 134217728"))
    assert (verdict.error_class, [finding.rule for finding in verdict.findings]) == (
        ErrorClass.INFRA,
        ["reference.shrunk"],
    )
    assert "134217728" in verdict.feedback
    assert "batch * width" in verdict.feedback
    assert relu.splitlines()[verdict.findings[0].line - 1].strip().startswith("int n")


def test_a_reference_that_cannot_be_shrunk_leaves_the_candidate_undecided(verifier, large, relu):
    verdict = verifier.verify_text(large.replace("torch.relu(x)", "torch.relu(x.view(16384, 8192))"), relu)
    assert [finding.rule for finding in verdict.findings] == ["reference.too_large"]


def test_numbers_within_words_and_fractions_are_no_sizes(verifier, large):
    lone = read_reference(large, CONFIG, verifier._opened.reference_sandbox)
    assert lone.written_sizes("x4096 = 0.4096 + a_32768 + 1.32768e5\ny = 7") == []
    assert lone.written_sizes("# a\nf(4096)")[0] == (4096, 2, "batch")


SCALE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(600, 1000)]


def get_init_inputs():
    return []
"""


def test_a_tail_that_the_declared_sizes_have_is_looked_for(verifier, relu):
    verdict = verifier.verify_text(SCALE, relu.replace("(n + 255) / 256, 256", "n / 256, 256"))
    assert verdict.error_class is ErrorClass.CORRECTNESS


def test_a_path_for_even_sizes_is_run_as_well(verifier, relu):
    wrong = relu.replace("y[i] = x[i] < 0.0f ? 0.0f : x[i]", "y[i] = x[i] < 0.0f && n % 4 ? 0.0f : x[i]")
    verdict = verifier.verify_text(SCALE, wrong)
    assert verdict.error_class is ErrorClass.CORRECTNESS


@pytest.mark.parametrize("condition", ["width > 4096", "width > 8191", "width >> 13"])
def test_a_path_for_large_sizes_is_run_where_all_of_the_declared_size_would_be_too_much(
    verifier, large, relu, condition
):
    wrong = relu.replace("x[i] < 0.0f ?", f"x[i] < 0.0f && !({condition}) ?")
    wrong = wrong.replace("int n)", "int n, int width)").replace("(), n)", "(), n, dense.size(1))")
    verdict = verifier.verify_text(large, wrong)
    assert verdict.error_class is ErrorClass.CORRECTNESS


def test_a_wrong_candidate_is_not_undecided_for_a_number_that_happens_to_be_a_size(verifier, relu):
    reference = SCALE.replace("600, 1000", "1024, 256")
    wrong = relu.replace("? 0.0f", "? -0.5f")
    assert verifier.verify_text(reference, wrong).error_class is ErrorClass.CORRECTNESS
    relying = relu.replace("if (i < n) y[i]", "y[i]").replace("(n + 255) / 256, 256", "n / 256, 256")
    assert verifier.verify_text(reference, relying).accepted


LAYER = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(256, 768)

    def forward(self, x):
        return self.layer(x)


def get_inputs():
    return [torch.randn(512, 256)]


def get_init_inputs():
    return []
"""
LAYER_KERNEL = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r\"\"\"
#include <torch/extension.h>
__global__ void layer(const float* x, const float* weight, const float* bias, float* y, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * 768) return;
    float sum = bias[i % 768];
    for (int k = 0; k < 256; ++k) sum += x[i / 768 * 256 + k] * weight[i % 768 * 256 + k];
    y[i] = sum;
}
torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto y = torch::empty({x.size(0), 768}, x.options());
    layer<<<x.size(0) * 3, 256>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                   y.data_ptr<float>(), x.size(0));
    return y;
}
\"\"\"
ext = load_inline("layer", cpp_sources=["torch::Tensor run(torch::Tensor, torch::Tensor, torch::Tensor);"],
                  cuda_sources=[source], functions=["run"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(256, 768)

    def forward(self, x):
        return ext.run(x.contiguous(), self.layer.weight, self.layer.bias)
"""


def test_a_candidate_for_the_layers_of_one_model_is_judged_with_their_widths(verifier, monkeypatch):
    """As most programs have these written into them: few rows make it little enough work, for a few sets of inputs
    where it is not for all."""
    monkeypatch.setattr("musadata.verifier.verifier._SHORT", 1 << 16)
    verdict = verifier.verify_text(LAYER, LAYER_KERNEL)
    assert verdict.facts.right and "512 to " in verdict.shrunk, verdict.findings
    wrong = LAYER_KERNEL.replace("k < 256", "k < 255")
    assert verifier.verify_text(LAYER, wrong).error_class is ErrorClass.CORRECTNESS


def test_a_number_that_happens_to_be_a_size_does_not_spare_the_others(verifier, relu):
    reference = SCALE.replace("600, 1000", "256, 5120")
    rows = relu.replace("<<<(n + 255) / 256, 256>>>", "<<<dense.size(0), 256>>>")
    rows = rows.replace("int n = dense.numel()", "int n = dense.size(1)").replace("blockIdx.x * blockDim.x + ", "")
    each = "for (int k = 0; k < 16; ++k, i += 256) if (i < n) { int at = blockIdx.x * n + i; "
    rows = rows.replace("if (i < n) ", each).replace("[i]", "[at]").replace(": x[at];", ": x[at]; }")
    assert verifier.verify_text(reference, rows).error_class is ErrorClass.CORRECTNESS
    assert verifier.verify_text(reference, rows.replace("k < 16", "k < 20")).facts.right


def test_a_race_at_the_declared_size_alone_is_seen(verifier, relu):
    racing = relu.replace("  if (i < n)", "  __shared__ float kept[256]; kept[threadIdx.x] = 1.0f;\n  if (i < n)")
    racing = racing.replace("0.0f : x[i];", "0.0f : n > 5000000 ? x[i] * kept[threadIdx.x / 2] : x[i];")
    verdict = verifier.verify_text(SCALE.replace("600, 1000", "3000, 2001"), racing)
    assert [(one.rule, one.condition) for one in verdict.facts.findings] == [("device.race_in_block", "declared")]


def test_a_launch_that_no_device_accepts_at_the_declared_size_is_refused(verifier, relu):
    reference = SCALE.replace("600, 1000", "70000, 48")
    launch = "<<<dim3(1, dense.size(0)), 64>>>"
    rows = relu.replace("<<<(n + 255) / 256, 256>>>", launch).replace("int n = dense.numel()", "int n = dense.size(1)")
    rows = rows.replace("if (i < n)", "int at = blockIdx.y * n + i; if (i < n)").replace("[i]", "[at]")
    (finding,) = verifier.verify_text(reference, rows).findings
    assert finding.rule == "device.launch" and "70000" in finding.message
    fine = rows.replace("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x").replace("blockIdx.y", "blockIdx.x")
    assert verifier.verify_text(reference, fine.replace("dim3(1, dense.size(0))", "dense.size(0)")).accepted


PRODUCT = SCALE.replace("torch.relu(x)", "x @ x").replace("600, 1000", "1536, 1536")
ROWS = r'''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void product_kernel(const float* x, float* y, int n, int step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (i >= n) return;
  float s = 0.0f;
  for (int k = 0; k < n; k += step) s += x[row * n + k] * x[k * n + i];
  y[row * n + i] = s * step;
}
torch::Tensor product(torch::Tensor x) {
  auto dense = x.contiguous();
  auto y = torch::empty_like(dense);
  int n = dense.size(0);
  product_kernel<<<dim3((n + 63) / 64, n), 64>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n, STEP);
  return y;
}
"""
ext = load_inline(name="product_ext", cpp_sources="torch::Tensor product(torch::Tensor x);", cuda_sources=source,
                  functions=["product"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.product(x)
'''


@pytest.mark.parametrize("step", ["n > 1100 ? 2 : 1", "1 + (n >> 10)"])
def test_some_blocks_are_run_at_the_declared_size_where_all_would_be_too_much(verifier, step):
    verdict = verifier.verify_text(PRODUCT, ROWS.replace("STEP", step))
    assert verdict.error_class is ErrorClass.CORRECTNESS
    assert verdict.findings[0].message.startswith("At the declared size")
    assert verifier.verify_text(PRODUCT, ROWS.replace("STEP", "1")).accepted


def capped(relu, blocks):
    return relu.replace("<<<(n + 255) / 256, 256>>>", f"<<<std::min((n + 255) / 256, {blocks}), 256>>>")


def test_a_long_vector_is_run_as_a_whole_at_its_declared_size(verifier, relu):
    long = SCALE.replace("600, 1000", "6000001")
    verdict = verifier.verify_text(long, capped(relu, 16384))
    assert verdict.error_class is ErrorClass.CORRECTNESS
    assert verdict.findings[0].message.startswith("At the declared size")
    assert verifier.verify_text(long, capped(relu, 32768)).accepted


@pytest.fixture
def task(verifier):
    """One that is proven at small sizes, as tasks of a corpus are."""
    lone = verifier.read_reference(SCALE.replace("600, 1000", "70000, 48"))
    (form, *_) = lone.forms
    return replace(form, reference=lone.text, measure=lone.measure)


def test_a_candidate_is_run_at_the_size_that_its_task_declares(verifier, task, relu, monkeypatch):
    assert verifier.verify(task, capped(relu, 16384)).accepted
    verdict = verifier.verify(task, capped(relu, 4096))
    assert verdict.error_class is ErrorClass.CORRECTNESS and "declared" in verdict.feedback
    monkeypatch.setattr(verifier, "_at_declared", False)
    assert verifier.verify(task, capped(relu, 4096)).accepted


def test_host_code_is_run_over_memory_that_is_never_touched(verifier, task, relu, monkeypatch):
    monkeypatch.setattr(verifier, "_at_declared", False)
    rows = relu.replace("<<<(n + 255) / 256, 256>>>", "<<<dim3(1, dense.size(0)), 64>>>")
    rows = rows.replace("int n = dense.numel()", "int n = dense.size(1)").replace("[i]", "[at]")
    rows = rows.replace("if (i < n)", "int at = blockIdx.y * n + i; if (i < n)")
    (finding,) = verifier.verify(task, rows).findings
    assert (finding.rule, finding.condition) == ("device.launch", "declared") and "70000" in finding.message


def test_a_size_that_host_code_refuses_is_none_that_it_is_right_for(verifier, task, relu, monkeypatch):
    monkeypatch.setattr(verifier, "_at_declared", False)
    narrow = relu.replace(
        "int n = dense.numel()", 'TORCH_CHECK(dense.size(0) < 1000, "too many"); int n = dense.numel()'
    )
    (finding,) = verifier.verify(task, narrow).findings
    assert (finding.rule, finding.condition) == ("execute.exception", "declared") and "too many" in finding.message


def test_a_program_is_not_blamed_for_what_it_would_take_at_the_declared_size(verifier, task, relu, monkeypatch):
    monkeypatch.setattr(verifier, "_at_declared", False)
    slow = relu.replace("return y;", "volatile long k = 0; while (n > 500000) k = k + 1; return y;")
    assert verifier.verify(task, slow).accepted


OFFSETS = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, offsets, rows):
        return torch.zeros(4, 8, device=x.device).index_add(0, rows.long(), x)


def get_inputs():
    return [torch.randn(10, 8), torch.tensor([0, 3, 4, 8, 10]).int(), torch.tensor([0, 0, 0, 1, 2, 2, 2, 2, 3, 3])]


def get_init_inputs():
    return []
"""


def test_integers_stay_as_they_are_where_the_reference_ignores_some_that_the_candidate_may_read(verifier):
    (form,) = verifier.read_reference(OFFSETS).forms
    assert [spec.kind for spec in form.inputs] == ["normal", "own", "own"]
    (form,) = verifier.read_reference(OFFSETS.replace("rows.long()", "rows.long() + 0 * offsets[0]")).forms
    assert [spec.kind for spec in form.inputs] == ["normal", "offsets", "segments"]
