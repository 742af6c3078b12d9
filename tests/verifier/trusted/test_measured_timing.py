"""A candidate at its measure size: here timed in the emulator, with the reference's process on the CPU."""

import time
from dataclasses import replace

import pytest

from musadata.config import BackendType, VerifierConfig
from musadata.records import ErrorClass, InputSpec
from musadata.verifier import Verifier, verifier
from musadata.verifier.backends.emulated.emulated_backend import open_emulated
from musadata.verifier.trusted import baseline_pool, measured_timing
from musadata.verifier.trusted.plan import Exercise, MeasureSet

CONFIG = VerifierConfig(backend=BackendType.EMULATED, seconds=30.0, timed_runs=20)
LARGE = (InputSpec("x", "normal", "float32", (700, 1001)),)

# A kernel that is right for the proof sets, with a place for what it does wrong where the input is large.
SOURCE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void scale(const float* x, const float* w, float* y, int n, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * w[i % width];
}
torch::Tensor run(torch::Tensor x, torch::Tensor w) {
  auto y = torch::empty_like(x);
  int n = x.numel();
  scale<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1));
  return y;
}
"""
ext = load_inline(name="scale", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor w);",
                  cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return ext.run(x.contiguous(), self.weight)
'''
REFERENCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


def get_inputs():
    return [torch.randn(17, 1001)]


def get_init_inputs():
    return [1001]
"""


@pytest.fixture(scope="module")
def timing():
    """A verifier that takes the emulator's times for real ones."""

    def open_timed(config):
        return replace(open_emulated(config), times=True, clock="cpu", flush_bytes=1 << 16, identity="measured-timing")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifier, "open_backend", open_timed)
        patch.setattr(baseline_pool, "_WINDOW_BYTES", 1 << 20)  # three chunks
        with Verifier(CONFIG) as opened:
            yield opened


@pytest.fixture(scope="module")
def task(timing):
    return replace(timing.read_task(REFERENCE), measure=LARGE)


def judge(timing, task, *changes):
    source = SOURCE
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    verdict = timing.verify(task, source)
    return verdict, [finding.rule for finding in verdict.findings]


def test_a_right_candidate_is_timed_at_the_measure_size(timing, task):
    verdict, rules = judge(timing, task)
    assert (verdict.accepted, rules) == (True, [])
    assert {one.name for one in verdict.timings} == {"candidate", "eager"}
    assert verdict.speedup is not None


def test_a_candidate_that_is_far_too_slow_gets_a_figure_from_few_calls(timing, task):
    work = "volatile long spent = 0; while (n > 500000 && spent < 20000000) spent = spent + 1; return y;"
    verdict, _ = judge(timing, task, ("return y;", work))
    assert verdict.accepted
    candidate = next(one for one in verdict.timings if one.name == "candidate")
    assert candidate.repetitions in (1, 3)  # one, if it takes long
    assert verdict.speedup < 0.05


@pytest.mark.parametrize(
    ("old", "new", "error_class", "rule", "said"),
    [
        ("if (i < n) y", "if (i < n && i != 700700 - 5) y", ErrorClass.CORRECTNESS, "measure.", "first at [699, 996]"),
        ("y[i] = x[i]", "y[i] = (i == 600000 ? 1.001f : 1.0f) * x[i]", ErrorClass.CORRECTNESS, "measure.values",
         "The output of shape (700, 1001) is wrong"),
        ("return y;", "TORCH_CHECK(n < 500000, \"too large\"); return y;", ErrorClass.RUNTIME, "measure.exception",
         "too large"),
        ("return ext.run(x.contiguous(), self.weight)",
         "y = ext.run(x.contiguous(), self.weight)\n        return y if y.numel() < 500000 else y[:-1]",
         ErrorClass.CORRECTNESS, "measure.output", "output 0 has the shape (699, 1001) instead of (700, 1001)"),
        ("return ext.run(x.contiguous(), self.weight)",
         "if x.numel() > 500000:\n            return torch.empty_like(x).copy_(x).mul_(self.weight)\n"
         "        return ext.run(x.contiguous(), self.weight)",
         ErrorClass.NOT_ALLOWED, "", ""),
        ("return ext.run(x.contiguous(), self.weight)",
         "if x.numel() > 500000:\n            return torch.empty_like(x)\n"
         "        return ext.run(x.contiguous(), self.weight)",
         ErrorClass.NOT_ALLOWED, "runtime.no_launch", ""),
    ],
)  # fmt: skip
def test_what_goes_wrong_only_where_inputs_are_large_is_found(timing, task, old, new, error_class, rule, said):
    verdict, rules = judge(timing, task, (old, new))
    assert not verdict.accepted
    assert verdict.error_class is error_class
    assert rules[0].startswith(rule)
    assert said in verdict.findings[0].message
    assert verdict.facts.right or verdict.timings == ()  # what is right is timed, however it computes


def test_a_candidate_that_hangs_where_inputs_are_large_is_ended_and_the_next_is_judged(timing, task, monkeypatch):
    monkeypatch.setattr(measured_timing, "_FIRST_SECONDS", 2.0)
    start = time.monotonic()
    _, rules = judge(timing, task, ("return y;", "volatile long k = 0; while (n > 500000) k = k + 1; return y;"))
    assert rules == ["measure.slow"]
    assert time.monotonic() - start < 60
    assert judge(timing, task)[0].accepted


def test_a_reference_that_does_not_run_at_that_size_is_no_verdict(timing, task):
    wrong = replace(task, measure=(replace(LARGE[0], shape=(700, 1000)),))
    verdict, rules = judge(timing, wrong)
    assert verdict.error_class is ErrorClass.INFRA
    assert rules == ["measure.unknown"]
    assert judge(timing, task)[0].accepted


def test_a_model_of_another_size_gets_its_state_through_the_window(timing, task, monkeypatch):
    larger = REFERENCE.replace("1001", "2003").replace("torch.ones(width)", "torch.linspace(-1, 1, width)")
    specs = (replace(LARGE[0], shape=(300, 2003)),)
    monkeypatch.setattr(verifier, "_measure_set", lambda task: MeasureSet(larger, specs))
    verdict, rules = judge(timing, task)
    assert (verdict.accepted, verdict.findings) == (True, ())
    verdict, rules = judge(timing, task, ("x[i] * w[i % width]", "x[i] * (width > 2000 ? 1.0f : w[i % width])"))
    assert rules == ["measure.values"]


def judge_alone(timing, *changes):
    """The verdict where there are no proof sets."""
    source = SOURCE
    for old, new in changes:
        source = source.replace(old, new)
    exercise = Exercise("task-alone", REFERENCE, list, lambda: MeasureSet(REFERENCE, LARGE))
    return timing._verdict(timing._judge(exercise, source))


def test_without_proof_sets_parameters_must_start_as_the_references_do(timing):
    found = judge_alone(timing, ("nn.Parameter(torch.ones(width))", "nn.Parameter(torch.empty(width))"))
    assert [finding.rule for finding in found.findings] == ["interface.initial_state"]


CONSTANT = REFERENCE.replace("return x * self.weight", "return (x - x) * self.weight")


def test_a_constant_result_is_decided_by_its_value(timing):
    exercise = Exercise("task-constant", CONSTANT, list, lambda: MeasureSet(CONSTANT, LARGE))
    for value, rules in (("0.0f * w[i % width]", []), ("1e-3f", ["measure.values"])):
        source = SOURCE.replace("x[i] * w[i % width]", value)
        verdict = timing._verdict(timing._judge(exercise, source))
        assert [finding.rule for finding in verdict.findings] == rules
        assert verdict.accepted is not rules
    judged = timing.verify(timing.read_task(CONSTANT), SOURCE.replace("x[i] * w[i % width]", "0.0f"))
    assert (judged.accepted, judged.findings) == (True, ())


def test_without_proof_sets_more_inputs_are_drawn_at_the_measure_size(timing):
    verdict = judge_alone(timing)
    assert (verdict.accepted, verdict.findings) == (True, ())
    assert verdict.speedup is not None
    for wrong in (
        "fabsf(x[i]) * w[i % width]",
        "x[i] * fminf(1.4f, w[i % width])",
        "fminf(x[i], 50.0f) * w[i % width]",
    ):
        found = judge_alone(timing, ("x[i] * w[i % width]", wrong))
        assert [finding.rule for finding in found.findings] == ["measure.values"], wrong


def test_what_pretends_is_compared_all_the_same(timing):
    honest = "return ext.run(x.contiguous(), self.weight)"
    fallback = f"try:\n            {honest}\n        except Exception:\n            return x * self.weight"
    for value, right in (("x[i] * w[i % width]", True), ("x[i] * 1.5f", False)):
        found = judge_alone(timing, (honest, fallback), ("x[i] * w[i % width]", value))
        assert "legality.fallback" in [finding.rule for finding in found.facts.findings]
        assert (found.accepted, found.facts.right) == (False, right)


def test_a_reference_without_a_right_answer_at_that_size_is_no_verdict(timing):
    unstable = "return x * self.weight + ((x + 1e7) - 1e7 - x)"
    reference = REFERENCE.replace("return x * self.weight", unstable)
    exercise = Exercise("task-unstable", reference, list, lambda: MeasureSet(reference, LARGE))
    verdict = timing._verdict(timing._judge(exercise, SOURCE))
    assert verdict.facts.right is None
    assert [finding.rule for finding in verdict.findings] == ["task.no_right_answer"]
