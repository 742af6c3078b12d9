"""From a reply to a verdict: the right stage, the right class, and the same verdict each time."""

import contextlib
import dataclasses
import errno
import json
import re
import uuid

import psutil
import pytest

from musadata.commands.verify import add_arguments, add_batch_arguments, run, run_batch
from musadata.errors import MusadataError, Outage
from musadata.records import ErrorClass, InputSpec, VerifyStage
from musadata.rows import plain
from musadata.verifier.policies import NAMES, decide, load_policy
from musadata.verifier.protocol.variants import DERIVED
from musadata.verifier.trusted import candidate_run


def judge(verifier, task, source, **changes):
    verdict = verifier.verify(task, source)
    return verdict, {finding.rule for finding in verdict.findings}


def test_honest_kernel_is_accepted_with_evidence(verifier, relu_task, relu):
    verdict, _ = judge(verifier, relu_task, f"Here:\n```python\n{relu}```")
    assert verdict.accepted
    assert (verdict.test_share, verdict.reward, verdict.speedup, verdict.timings) == (1.0, 1.0, None, ())
    assert verdict.kernels == ("relu_kernel",)
    assert verdict.backend == "emulated"


def test_same_arguments_give_the_same_verdict(verifier, relu_task, relu):
    wrong = relu.replace("x[i] < 0.0f ? 0.0f : x[i]", "x[i]")
    for source in (relu, wrong, relu.replace("if (i < n) ", "")):
        assert verifier.verify(relu_task, source) == verifier.verify(relu_task, source)


def test_verdict_holds_nothing_that_differs_between_machines(verifier, relu_task, relu):
    for old, new in (("y[i] =", "y[i] = nonsense"), ("if (i < n) ", ""), ("return y;", "TORCH_CHECK(false, y);")):
        text = json.dumps(plain(verifier.verify(relu_task, relu.replace(old, new))))
        assert "/tmp" not in text
        assert "/root" not in text
        assert "site-packages" not in text
        assert "0x" not in text


@pytest.mark.parametrize(
    ("old", "new", "stage", "error_class", "rule"),
    [
        ("class ModelNew", "class Other", VerifyStage.EXTRACT, ErrorClass.COMPILE, "extract.no_code"),
        ("return ext.relu(x)", "return torch.relu(x)", VerifyStage.LEGALITY, ErrorClass.NOT_ALLOWED,
         "legality.compute"),
        ("auto y = torch::empty_like(dense);", "auto y = at::relu(dense);", VerifyStage.LEGALITY,
         ErrorClass.NOT_ALLOWED,
         "legality.aten"),
        ("return y;", "return y", VerifyStage.COMPILE, ErrorClass.COMPILE, "compile.error"),
        ("if (i < n) ", "", VerifyStage.EXECUTE, ErrorClass.RUNTIME, "device.illegal_access"),
        ("(n + 255) / 256, 256", "1, 2048", VerifyStage.EXECUTE, ErrorClass.RUNTIME, "device.launch"),
        ("return ext.relu(x)", "raise ValueError('no')", VerifyStage.EXECUTE, ErrorClass.RUNTIME, "execute.exception"),
        ("return ext.relu(x)", "while True: pass", VerifyStage.EXECUTE, ErrorClass.RUNTIME, "execute.timeout"),
        ("? 0.0f : x[i]", "? 0.1f : x[i]", VerifyStage.COMPARE, ErrorClass.CORRECTNESS, "correctness.values"),
        ("if (i < n) ", "if (i < n - 1) ", VerifyStage.COMPARE, ErrorClass.CORRECTNESS, "correctness.nonfinite"),
        ("return ext.relu(x)", "return ext.relu(x), 1", VerifyStage.COMPARE, ErrorClass.CORRECTNESS,
         "correctness.structure"),
        ("return ext.relu(x)", "return ext.relu(x).double()", VerifyStage.COMPARE, ErrorClass.CORRECTNESS,
         "correctness.dtype"),
        ("return ext.relu(x)", "return ext.relu(x).view(-1)", VerifyStage.COMPARE, ErrorClass.CORRECTNESS,
         "correctness.shape"),
        ("auto dense = x.contiguous();", "auto dense = x.view({-1});", VerifyStage.COMPARE, ErrorClass.CORRECTNESS,
         "correctness.shape"),
        ("return ext.relu(x)", "return ext.relu(x) + 0", VerifyStage.PROFILE, ErrorClass.NOT_ALLOWED,
         "runtime.operator"),
    ],
)  # fmt: skip
def test_each_failure_has_its_stage_class_and_rule(verifier, relu_task, relu, old, new, stage, error_class, rule):
    assert old in relu
    verdict, rules = judge(verifier, relu_task, relu.replace(old, new))
    assert (verdict.accepted, verdict.stage, verdict.error_class) == (False, stage, error_class), verdict.feedback
    assert rule in rules
    assert len(verdict.feedback) < 2100


def test_what_an_operator_says_that_fails_reaches_the_finding(verifier, relu_task, relu):
    failing = relu.replace("auto dense = x.contiguous();", "auto dense = x.contiguous().view({-1, 3, 1009});")
    verdict = verifier.verify(relu_task, failing)
    assert verdict.error_class is ErrorClass.RUNTIME
    assert "invalid for input of size" in verdict.findings[0].message
    hungry = relu.replace("torch::empty_like(dense)", "torch::empty({1LL << 45}, x.options())")
    verdict = verifier.verify(relu_task, hungry)
    assert "out of memory" in verdict.findings[0].message  # by which it is told that others may have held it


def test_hidden_shapes_are_judged_too(verifier, relu_task, relu):
    hidden = (dataclasses.replace(relu_task.inputs[0], shape=(5, 7)),)
    keyed = relu.replace("if (i < n)", "if (i < n && n > 100)")
    assert verifier.verify(relu_task, keyed).accepted
    verdict = verifier.verify(relu_task, keyed, [hidden])
    assert 0 < verdict.test_share < 1
    assert "Only with other shapes than the first" in verdict.feedback
    assert verdict.reward == pytest.approx(-0.5 + 0.5 * verdict.test_share)


SCALE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size, power=1.0):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))
        self.power = power

    def forward(self, x):
        return x * self.scale * self.power


def get_inputs():
    return [torch.randn(6, 40)]


def get_init_inputs():
    return [40, 1.5]
"""

SCALED = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void scale_kernel(const float* x, const float* s, float* y, int cols, int n, float power) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] * s[i % cols] * power;
}
torch::Tensor scale(torch::Tensor x, torch::Tensor s, double power) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  scale_kernel<<<1, 64>>>(x.data_ptr<float>(), s.data_ptr<float>(), y.data_ptr<float>(), x.size(1), x.numel(), power);
  return y;
}
"""
ext = load_inline(name="scale_ext", cpp_sources="torch::Tensor scale(torch::Tensor x, torch::Tensor s, double power);",
                  cuda_sources=source, functions=["scale"])


class ModelNew(nn.Module):
    def __init__(self, size, power=1.0):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))
        self.power = power

    def forward(self, x):
        return ext.scale(x, self.scale, self.power)
'''


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("", "", None),
        ("self.scale", "self.gain", "interface.state"),
        ("torch.ones(size)", "torch.ones(size, 1)", "interface.state"),
        ("torch.ones(size)", "torch.ones(size).double()", "interface.state, execute.exception"),
        ("torch.ones(size)", "torch.full((size,), 1.0)", None),
        ("torch.ones(size)", "torch.zeros(size)", "interface.initial_state"),
        ("torch.ones(size)", "torch.empty(size)", "interface.initial_state"),
        ("s[i % cols] *", "", "correctness.values"),
        ("self.power = power", "self.power = 1.0", "correctness.values"),
    ],
)
def test_parameters_are_randomised_and_copied_by_name(verifier, make_task, old, new, rule):
    _, rules = judge(verifier, make_task(SCALE), SCALED.replace(old, new) if old else SCALED)
    assert rules == (set(rule.split(", ")) if rule else set())


RANDOM_SCALE = SCALE.replace("torch.ones(size)", "torch.randn(size)")
RANDOM_SCALED = SCALED.replace("torch.ones(size)", "torch.randn(size)")


def test_parameters_that_are_drawn_as_in_the_reference_start_with_its_values(verifier, make_task):
    later = RANDOM_SCALED.replace("self.scale =", "torch.randn(1)\n        self.scale =")
    assert judge(verifier, make_task(RANDOM_SCALE), RANDOM_SCALED)[0].accepted
    verdict, rules = judge(verifier, make_task(RANDOM_SCALE), later)
    assert rules == {"interface.initial_state"}
    assert (verdict.error_class, verdict.test_share, verdict.reward) == (ErrorClass.CORRECTNESS, 1.0, 0.0)
    assert "same statements in the same order" in verdict.feedback
    assert "not right" not in verdict.feedback


def test_memory_that_the_reference_does_not_fill_may_start_with_any_values(verifier, make_task):
    scratch = 'self.register_buffer("scratch", torch.empty(size))\n        self.power ='
    reference = SCALE.replace("self.power =", scratch)
    for fill in ("torch.zeros", "torch.empty"):
        candidate = SCALED.replace("self.power =", scratch.replace("torch.empty", fill))
        assert judge(verifier, make_task(reference), candidate)[0].accepted


def test_tensor_that_the_constructor_is_given_starts_as_it_was_given(verifier, make_task):
    given = ("nn.Parameter(torch.ones(size))", "size"), ("[40, 1.5]", "[torch.full((40,), 2.0), 1.5]")
    reference, candidate = SCALE, SCALED
    for old, fresh in given:
        reference, candidate = reference.replace(old, fresh), candidate.replace(old, fresh)
    reference, candidate = (
        text.replace("self.scale = size", 'self.register_buffer("scale", size)') for text in (reference, candidate)
    )
    assert judge(verifier, make_task(reference), candidate)[1] == set()


def test_wrong_results_and_a_wrong_start_are_reported_together(verifier, make_task):
    _, rules = judge(verifier, make_task(SCALE), SCALED.replace("torch.ones", "torch.zeros").replace("* power;", ";"))
    assert rules == {"correctness.values", "interface.initial_state"}


def test_reference_that_does_not_run_is_not_held_against_the_candidate(verifier, relu_task, relu):
    for reference in (
        "raise RuntimeError('no')",
        "class Model: pass",
        relu_task.reference.replace("relu(x)", "relu(x, x)"),
    ):
        verdict, rules = judge(verifier, dataclasses.replace(relu_task, reference=reference), relu)
        assert (verdict.error_class, rules, verdict.reward) == (ErrorClass.INFRA, {"reference.fails"}, 0.0)


@pytest.mark.parametrize("noise", ["torch.rand(())", "torch.rand_like(x)", "__import__('random').random()"])
def test_reference_that_draws_random_numbers_has_no_right_answer(verifier, relu, relu_reference, noise):
    random = relu_reference.replace("return torch.relu(x)", f"return torch.relu(x) + {noise}")
    verdict = verifier.verify_text(random, relu)
    assert (verdict.accepted, verdict.error_class, verdict.reward) == (False, ErrorClass.INFRA, 0.0)
    assert "two calls with the same inputs give different results" in verdict.feedback


def test_a_reference_given_as_text_gives_the_verdict_of_its_task(verifier, relu_task, relu, relu_reference):
    for source in (relu, relu.replace("return ext.relu(x)", "return torch.relu(x)")):
        alone, known = verifier.verify_text(relu_reference, source), verifier.verify(relu_task, source)
        conditions = [one for one in alone.facts.conditions if one.condition != DERIVED]
        alone = dataclasses.replace(alone, facts=dataclasses.replace(alone.facts, conditions=tuple(conditions)))
        assert alone == known


def test_a_text_that_does_not_run_is_an_error_whatever_the_candidate_is(verifier, relu):
    for source in (relu, "", relu.replace("return ext.relu(x)", "return torch.relu(x)")):
        with pytest.raises(MusadataError, match="does not run"):
            verifier.verify_text("raise ValueError('no')", source)


def test_running_a_reference_does_not_load_the_compiler_of_torch(verifier, make_task, relu, relu_reference):
    """A second for each reference; a dispatch mode that PyTorch's compiler shall stay away from would load it."""
    watched = "import sys; assert 'torch._dynamo' not in sys.modules; return torch.relu(x)"
    verdict = verifier.verify(make_task(relu_reference.replace("return torch.relu(x)", watched)), relu)
    assert verdict.accepted, verdict.findings


def test_task_that_a_constant_would_pass_cannot_be_judged(verifier, relu_task, relu):
    reference = relu_task.reference.replace("torch.relu(x)", "torch.tanh(x) * 1e-12 + 0.5")
    verdict, rules = judge(
        verifier, dataclasses.replace(relu_task, reference=reference), re.sub(r"= (.*): x\[i\];", "= 0.5f;", relu)
    )
    assert (verdict.error_class, rules) == (ErrorClass.INFRA, {"task.not_discriminating"})


@pytest.mark.parametrize(("written", "error_class"), [("0.0f", None), ("1.0f", ErrorClass.CORRECTNESS)])
def test_result_that_is_one_number_for_all_inputs_is_decided_by_it(verifier, relu_task, relu, written, error_class):
    reference = relu_task.reference.replace("torch.relu(x)", "torch.relu(x).clamp(max=0)")
    verdict, _ = judge(
        verifier, dataclasses.replace(relu_task, reference=reference), relu.replace(": x[i]", f": {written}")
    )
    assert verdict.error_class is error_class


@pytest.mark.parametrize(
    "bomb",
    [
        "template <int N> struct B { B<N + 1> next; }; B<0> bomb;",
        '#include "/dev/zero"',
        "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(A(x))))\n#define C(x) B(B(x))\nC(C(int i;))",
        "char data[1ull << 34] = {1};",
    ],
)
def test_compiler_bomb_is_contained(verifier, relu_task, relu, bomb):
    source = relu.replace("#include <torch/extension.h>", "#include <torch/extension.h>\n" + bomb)
    verdict, _ = judge(verifier, relu_task, source)
    assert verdict.error_class in (ErrorClass.COMPILE, ErrorClass.NOT_ALLOWED)
    assert verifier.verify(relu_task, relu).accepted


def test_candidates_can_be_compiled_ahead(verifier, relu):
    assert verifier.compile(relu) is None
    assert verifier.compile(relu.replace("return y;", "return")).stage == VerifyStage.COMPILE


def test_integer_and_literal_inputs_keep_their_meaning(verifier, make_task):
    reference = SCALE.replace("def forward(self, x)", "def forward(self, x, k)").replace("self.power\n", "k\n")
    task = make_task(reference.replace("torch.randn(6, 40)]", "torch.randn(6, 40), 3]"))
    assert isinstance(task.inputs[1], InputSpec)
    assert task.inputs[1].literal == "3"
    source = SCALED.replace("def forward(self, x)", "def forward(self, x, k)").replace(
        "self.scale, self.power)", "self.scale, k)"
    )
    assert verifier.verify(task, source).accepted


def parse(add, *arguments):
    import argparse

    parser = argparse.ArgumentParser()
    add(parser)
    return parser.parse_args([str(argument) for argument in arguments])


def test_command_says_accepted_rejected_or_undecided(tmp_path, relu, relu_reference, capsys):
    reference, good, bad = (tmp_path / name for name in ("ref.py", "good.py", "bad.py"))
    reference.write_text(relu_reference)
    good.write_text(relu)
    bad.write_text(relu.replace("? 0.0f", "? 1.0f"))
    assert (
        run(parse(add_arguments, "--reference", reference, "--candidate", good, "--backend", "emulated", "--json")) == 0
    )
    assert json.loads(capsys.readouterr().out)["accepted"] is True
    assert run(parse(add_arguments, "--reference", reference, "--candidate", bad, "--backend", "emulated")) == 1
    assert "rejected (correctness)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "extract.unreadable"),
        (bytes(range(256)) * 100, "extract.unreadable"),
        (b"x = 1\n" * (20 << 20), "extract.unreadable"),
        ("# -*- coding: latin-1 -*-\nname = 'é'".encode("latin-1"), "extract.no_code"),
        ("class Other: pass".encode("utf-16"), "extract.no_code"),
        ("x = 'é'".encode("latin-1"), "extract.unreadable"),
    ],
    ids=["empty", "binary", "huge", "declared encoding", "byte order mark", "undeclared encoding"],
)
def test_file_that_is_no_program_gets_a_verdict(tmp_path, relu_reference, capsys, content, rule):
    (tmp_path / "ref.py").write_text(relu_reference)
    (tmp_path / "cand.py").write_bytes(content)
    files = ("--reference", tmp_path / "ref.py", "--candidate", tmp_path / "cand.py")
    assert run(parse(add_arguments, *files, "--backend", "emulated", "--json")) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["stage"], verdict["error_class"]) == ("extract", "compile")
    assert [finding["rule"] for finding in verdict["findings"]] == [rule]


def test_device_that_is_lost_is_not_held_against_the_candidate(verifier, relu_task, relu, monkeypatch):
    fails, wrong = relu.replace("if (i < n) ", ""), relu.replace("? 0.0f", "? 1.0f")
    opened = verifier._opened
    monkeypatch.setattr(opened, "backend", dataclasses.replace(opened.backend, is_lost=lambda: True))
    with pytest.raises(Outage, match="does not answer any more"):
        judge(verifier, relu_task, fails)
    assert judge(verifier, relu_task, wrong)[0].error_class is ErrorClass.CORRECTNESS


@pytest.mark.parametrize(("free", "measured"), [(0.05, False), (0.2, False), (0.2, True), (0.95, True)])
def test_memory_that_others_hold_is_not_held_against_the_candidate(
    verifier, relu_task, relu, monkeypatch, free, measured
):
    hungry = relu.replace("ext.relu(x)", "self.take(x)") + "\n    def take(self, x):\n"
    hungry += "        raise RuntimeError('CUDA error: out of memory')\n"
    asked = []
    backend = dataclasses.replace(verifier._opened.backend, seats=4, free_share=lambda: asked.append(1) or free)
    monkeypatch.setattr(verifier._opened, "backend", backend)
    monkeypatch.setattr("musadata.verifier.trusted.candidate_run._LONGEST_WAIT_SECONDS", 0.0)
    execute = candidate_run._execute

    def execute_measured(opened, exercise, *sources):
        if exercise.alone and measured:  # as where there is a measure set, which the emulator has none of
            exercise.alone()
        return execute(opened, exercise, *sources)

    monkeypatch.setattr(candidate_run, "_execute", execute_measured)
    if free < 0.1 or (measured and free < 0.3):
        with pytest.raises(Outage, match="other programs hold the memory"):
            judge(verifier, relu_task, hungry)
    else:
        assert judge(verifier, relu_task, hungry)[0].error_class is ErrorClass.RUNTIME
    assert asked
    asked.clear()
    assert judge(verifier, relu_task, relu)[0].accepted
    assert not asked


@pytest.mark.parametrize("times", [1, 3])
def test_candidate_whose_process_is_killed_from_outside_is_run_again_or_is_an_outage(
    verifier, relu_task, relu, monkeypatch, times
):
    """An accepted candidate stays accepted; where its process is killed each time, there is no verdict at all."""
    monkeypatch.setattr("musadata.verifier.trusted.candidate_run._PAUSE_SECONDS", (0.0, 0.0))
    candidates, left = verifier._opened.candidates, [times]
    call = candidates.call

    def call_and_kill(function, *arguments, serve, limits=None):
        def serve_and_kill(question):
            if left[0]:
                left[0] -= 1
                for process in psutil.Process(candidates._process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):  # it has ended with its parent
                        process.kill()
            return serve.serve(question)

        return call(function, *arguments, serve=dataclasses.replace(serve, serve=serve_and_kill))

    monkeypatch.setattr(candidates, "call", call_and_kill)
    if times == 3:
        with pytest.raises(Outage):
            judge(verifier, relu_task, relu)
    assert judge(verifier, relu_task, relu)[0].accepted


def test_full_disk_is_an_outage_and_no_verdict(verifier, relu_task, relu, monkeypatch):
    monkeypatch.setattr("musadata.verifier.trusted.candidate_run._PAUSE_SECONDS", (0.0, 0.0))
    fresh = relu.replace("? 0.0f", f"? 0.0f /* {uuid.uuid4()} */")  # in no cache of an earlier run
    full = OSError(errno.ENOSPC, "No space left on device")

    def refuse(*_args, **_kwargs):
        raise full

    with monkeypatch.context() as patch:
        patch.setattr("musadata.verifier.compilation.build_cache.tempfile.mkdtemp", refuse)
        with pytest.raises(Outage, match="No space left on device"):
            judge(verifier, relu_task, fresh)
    assert judge(verifier, relu_task, fresh)[0].accepted


def test_reference_that_is_no_text_is_named_as_such(tmp_path, relu):
    (tmp_path / "cand.py").write_text(relu)
    (tmp_path / "ref.py").write_bytes(bytes(range(256)))
    with pytest.raises(MusadataError, match=r"ref\.py: is not UTF-8 text"):
        run(parse(add_arguments, "--reference", tmp_path / "ref.py", "--candidate", tmp_path / "cand.py"))


@pytest.mark.slow
def test_batch_keeps_rows_in_order(tmp_path, relu, relu_reference):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {"id": 1, "reference": relu_reference, "source": relu},
        {"id": 2, "reference": "raise ValueError", "source": relu},
        {"id": 3, "reference": relu_reference, "source": "nothing"},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    assert run_batch(parse(add_batch_arguments, tmp_path / "in.parquet", "--output", out, "--backend", "emulated")) == 0
    verdicts = pq.read_table(out).to_pylist()
    assert [row["id"] for row in verdicts] == [1, 2, 3]
    assert [row["verdict"]["error_class"] for row in verdicts] == [None, "infra", "compile"]


@pytest.mark.parametrize(("start", "right"), [("torch.randn(size)", True), ("torch.randn(size) * 2", False)])
def test_candidate_with_other_parameters_is_judged_by_those_that_it_constructs(verifier, make_task, start, right):
    renamed = RANDOM_SCALED.replace("self.scale", "self.gain").replace("torch.randn(size)", start)
    verdict, rules = judge(verifier, make_task(RANDOM_SCALE), renamed)
    assert not verdict.accepted and ("interface.state" in rules or not right)
    assert verdict.facts.right is right
    accepting = {name for name in NAMES if decide(verdict.facts, load_policy(name)).accepted}
    assert accepting == ({"kernelbench", "audit"} if right else set())


def test_an_input_of_one_element_has_a_strided_form(verifier, relu, make_task):
    reference = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(1) - 0.5]


def get_init_inputs():
    return []
"""
    assert verifier.verify(make_task(reference), relu).accepted
