import dataclasses
import math

import pytest

from musadata.config import TracingConfig
from musadata.records import InputSpec, Reject, Trace
from musadata.sandbox import Sandbox
from musadata.tracing.execution import trace_reference
from musadata.tracing.shape_sets import elements, has_uneven_size
from musadata.tracing.task import PRELOAD, Traced, trace_task
from tests.tasks.conftest import reference
from tests.tracing.examples import NAMES, example, task_of, traces_of


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(preload=PRELOAD) as sandbox:
        yield sandbox


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_traced_on_two_different_sets_of_shapes_one_of_them_uneven(name):
    task, traces = example(name), traces_of(name)
    assert len(traces) == 2 and traces[0].inputs == task.inputs
    first, second = ([spec.shape for spec in trace.inputs] for trace in traces)
    assert first != second
    assert any(has_uneven_size(trace.inputs) for trace in traces)
    assert elements(traces[1].inputs) <= max(2 * elements(task.inputs), 4096)
    for trace in traces:
        assert trace.flops >= 0 and trace.bytes > 0
        roles = {fact.role for fact in trace.tensors}
        assert {"input", "output"} <= roles
        names = [fact.name for fact in trace.tensors]
        assert len(set(names)) == len(names)
        assert all(operand in names for fact in trace.tensors for operand in fact.operands)


def test_facts_are_those_of_the_run(sandbox):
    found = trace_task(example("gelu_chain"), TracingConfig(), sandbox, 5)
    assert isinstance(found, Traced)
    traces = found.traces
    facts = {fact.name: fact for fact in traces[0].tensors}
    assert [(f.name, f.role, f.shape, f.stride, f.dtype) for f in traces[0].tensors] == [
        ("x", "input", (8, 33), (33, 1), "float32"),
        ("y", "input", (33,), (1,), "float32"),
        ("gelu", "intermediate", (8, 33), (33, 1), "float32"),
        ("mul", "intermediate", (8, 33), (33, 1), "float32"),
        ("add", "output", (8, 33), (33, 1), "float32"),
    ]
    assert facts["mul"].operands == ("gelu",) and facts["mul"].arguments == "other=2"
    assert traces[0].operators == ("aten.gelu.default", "aten.mul.Tensor", "aten.add.Tensor")
    assert (traces[0].flops, traces[0].bytes) == (3 * 264, 4 * (264 + 33 + 264))


def test_the_declared_size_is_traced_without_memory_and_comes_first(sandbox):
    """A tensor of 64 GB, on no machine of ours; its work grows with it, and so does what bounds it."""
    task = example("linear")
    large = dataclasses.replace(task.inputs[0], shape=(1 << 28, 64))
    found = trace_task(dataclasses.replace(task, measure=(large,)), TracingConfig(), sandbox, 5)
    assert isinstance(found, Traced)
    first, own, *_ = found.told
    assert first.inputs == (large,) and own.inputs == task.inputs and first.operators == own.operators
    assert first.flops == own.flops * (1 << 28) // 16 and first.tensors[-1].shape == (1 << 28, 32)


def test_a_condition_on_values_goes_at_the_declared_size_as_it_went_on_proof():
    checked = SIGNED_TARGET.replace(
        "(self, x, target):\n", "(self, x):\n        if (x < 0).any():\n            x = x * x\n"
    )
    checked = checked.replace("torch.where(target == 1, x, torch.where(target == -1, -x, 0.0)).mean()", "x.exp()")
    own, large = (dataclasses.asdict(InputSpec("x", "normal", "float32", (rows, 33))) for rows in (8, 1 << 24))
    (declared,) = trace_reference(checked, [own], 5, 2, [large])["declared"]
    assert declared["inputs"][0]["shape"] == (1 << 24, 33) and "aten.mul.Tensor" in declared["operators"]


def test_the_sandbox_finds_the_same_facts_every_time_whatever_the_seed_draws(sandbox):
    first, again = (trace_task(example("block"), TracingConfig(), sandbox, 5) for _ in range(2))
    assert first == again
    assert first == trace_task(example("block"), TracingConfig(), sandbox, 6)


SIGNED_TARGET = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x, target):
        return torch.where(target == 1, x, torch.where(target == -1, -x, 0.0)).mean()


def get_inputs():
    return []


def get_init_inputs():
    return []
"""


def test_reference_that_its_described_inputs_leave_cold_is_refused():
    x = InputSpec("x", "normal", "float32", (8, 33), 0.0, 0.0, "")
    between, signs = (
        InputSpec("target", *kind, "")
        for kind in (("uniform", "float32", (8, 33), -1.0, 1.0), ("integers", "int64", (8, 33), 0.0, 2.0))
    )
    cold, warm = (
        trace_reference(SIGNED_TARGET, [dataclasses.asdict(s) for s in (x, target)], 5, 2)
        for target in (between, signs)
    )
    assert cold["reason"] == "values_do_not_matter"
    assert len(warm["traces"]) == 2


def test_work_in_place_makes_a_tensor_of_its_own_in_the_trace():
    names = [(fact.name, fact.operands, fact.role) for fact in traces_of("in_place")[0].tensors]
    assert names[1:] == [
        ("mul", ("x",), "intermediate"),
        ("add", ("mul",), "intermediate"),
        ("relu", ("add",), "output"),
    ]


def test_a_repeated_operand_is_stated_twice(sandbox):
    source = example("relu").reference.replace("torch.relu(x)", "x * x")
    found = trace_task(task_of(source, InputSpec("x", "normal", "float32", (4, 6))), TracingConfig(), sandbox, 0)
    assert isinstance(found, Traced)
    traces = found.traces
    assert traces[0].tensors[-1].operands == ("x", "x")


def test_operators_do_not_depend_on_what_the_machine_has_fused():
    operators = traces_of("lstm")[0].operators
    assert not any("mkldnn" in operator for operator in operators)
    assert "aten.sigmoid_.default" in operators


@pytest.mark.parametrize("count", [3, 4])
def test_more_sets_of_shapes_are_all_different(sandbox, count):
    found = trace_task(example("linear"), TracingConfig(shape_sets=count), sandbox, 5)
    assert isinstance(found, Traced)
    traces = found.traces
    assert len({trace.inputs for trace in traces}) == count


def test_indices_stay_in_range_on_the_other_shapes():
    """A gather along an axis that shrinks would read out of bounds: the search must notice, whatever it draws."""
    for trace in traces_of("gather"):
        x, i = trace.inputs
        assert i.high <= x.shape[1]


def test_literal_arguments_stay_as_they_are(sandbox):
    source = (
        example("relu")
        .reference.replace("def forward(self, x)", "def forward(self, x, n)")
        .replace("torch.relu(x)", "x.reshape(-1, n).sum(1)")
    )
    inputs = InputSpec("x", "normal", "float32", (8, 16)), InputSpec("n", "literal", "", (), literal="4")
    found = trace_task(task_of(source, *inputs), TracingConfig(), sandbox, 5)
    assert isinstance(found, Traced)
    traces = found.traces
    assert traces[1].inputs[1] == inputs[1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return torch.relu(x)[:, 9]", "trace_error"),
        ("return None", "no_tensor_output"),
        ("return x[:0]", "empty_output"),
        ("return x / 0", "not_finite"),
        ("return x.to_sparse()", "sparse_output"),
        ("assert x.shape == (4, 4); return x + 1", "shapes_cannot_vary"),
        ("return torch.from_numpy(x.numpy() * 2)", "work_outside_torch"),
        ("return x + 1, torch.tensor(x.tolist())", "work_outside_torch"),
        ("assert set(x.shape) <= {2, 4, 8, 16}; return x + 1", "only_powers_of_two"),
        ("import os; os.kill(os.getpid(), 11)", "trace_crash"),
        ("raise SystemExit(0)", "trace_error"),
    ],
)
def test_what_cannot_be_traced_is_a_countable_reject(sandbox, body, reason):
    source = example("relu").reference.replace("return torch.relu(x)", body)
    task = task_of(source, InputSpec("x", "normal", "float32", (4, 4)))
    rejected = trace_task(task, TracingConfig(), sandbox, 5)
    assert isinstance(rejected, Reject), rejected
    assert (rejected.reason, rejected.step, rejected.dataset, rejected.origin) == (
        reason,
        "trace",
        "annotations",
        task.task_id,
    )


def test_a_reject_holds_no_address_that_differs_from_run_to_run(sandbox):
    source = example("relu").reference.replace("return torch.relu(x)", "raise ValueError(f'bad {object()}')")
    rejected = trace_task(task_of(source, InputSpec("x", "normal", "float32", (4, 4))), TracingConfig(), sandbox, 5)
    assert isinstance(rejected, Reject) and rejected.detail == "ValueError"


def test_a_reference_that_never_ends_is_rejected(sandbox):
    source = example("relu").reference.replace("return torch.relu(x)", "while True: pass")
    task = task_of(source, InputSpec("x", "normal", "float32", (4, 4)))
    rejected = trace_task(task, TracingConfig(seconds=1.0), sandbox, 5)
    assert isinstance(rejected, Reject) and rejected.reason == "trace_timeout"


def test_tracing_does_not_load_the_compiler_of_torch(sandbox):
    """`torch._dynamo` would be imported by a dispatch mode and cost three seconds in every call."""
    source = example("relu").reference.replace(
        "return torch.relu(x)",
        "import sys; assert 'torch._dynamo.eval_frame' not in sys.modules; return torch.relu(x) + torch.relu(x)",
    )
    task = task_of(source, InputSpec("x", "normal", "float32", (4, 4)))
    measured = dataclasses.replace(task, measure=(dataclasses.replace(task.inputs[0], shape=(64, 64)),))
    found = trace_task(measured, TracingConfig(), sandbox, 5)
    assert isinstance(found, Traced) and found.declared


def test_a_trace_is_made_of_plain_values():
    assert all(isinstance(trace, Trace) and dataclasses.is_dataclass(trace) for trace in traces_of("relu"))


def test_sizes_that_are_large_at_the_measure_size_get_long_in_sets_of_their_own(sandbox):
    small = example("gelu_chain")
    measure = tuple(dataclasses.replace(spec, shape=tuple(64 * size for size in spec.shape)) for spec in small.inputs)
    task = dataclasses.replace(small, measure=measure)
    found, alone = (trace_task(one, TracingConfig(), sandbox, 5) for one in (task, small))
    assert isinstance(found, Traced) and isinstance(alone, Traced)
    traces = found.traces
    assert traces[:2] == alone.traces
    longest = [max(max(spec.shape) for spec in trace.inputs) for trace in traces]
    assert longest[2:] and min(longest[2:]) > max(longest[:2])
    assert all(trace.operators == traces[0].operators for trace in traces)


def test_a_task_that_is_much_work_has_a_set_of_short_sizes():
    source = reference(
        "return self.f(x)", "self.f = nn.Conv2d(8, 64, 5, padding=2)", inputs="torch.randn(4, 8, 24, 24)"
    )
    specs = [
        [dataclasses.asdict(InputSpec("x", "normal", "float32", shape))]
        for shape in ((4, 8, 24, 24), (64, 8, 256, 256))
    ]
    found = trace_reference(source, specs[0], 0, 2, specs[1])["traces"]
    shapes = [trace["inputs"][0]["shape"] for trace in found]
    assert math.prod(shapes[-1]) * 8 <= math.prod(shapes[0]) and shapes[-1][1] == 8
    assert found[-1]["operators"] == found[0]["operators"]
