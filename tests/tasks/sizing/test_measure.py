"""The measure size grows what is free, keeps together what is tied, and leaves what parameters and literals fix."""

import math
from dataclasses import asdict, replace

import pytest
import torch

from musadata.records import InputSpec, Task
from musadata.rows import restore
from musadata.tasks.reference_loading import load_reference
from musadata.tasks.sizing.measure import MOST_BYTES, find_measure
from tests.tasks.conftest import reference

X = InputSpec("x", "normal", "float32", (4, 33))


def spec(name: str, *shape: int) -> InputSpec:
    return replace(X, name=name, shape=shape)


def indices(name: str, high: int, *shape: int) -> InputSpec:
    return InputSpec(name, "integers", "int64", shape, 0.0, float(high))


def find(text: str, *specs: InputSpec) -> tuple[list[InputSpec], str, str]:
    found = find_measure(text, [asdict(one) for one in specs])
    return [restore(InputSpec, one) for one in found["measure"]], found["note"], found["reference"]


def test_a_pointwise_operator_gets_enough_to_do_and_a_get_inputs_that_gives_it():
    (x,), note, text = find(reference("return F.relu(x)"), X)
    assert note == ""
    moved = 8 * math.prod(x.shape)
    assert 0.2e-3 <= moved / 4.8e12 <= 20e-3
    assert moved <= MOST_BYTES
    assert all(size & (size - 1) == 0 for size in x.shape)
    with torch.device("meta"):
        assert [tuple(value.shape) for value in load_reference(text).get_inputs()] == [x.shape]


def test_work_that_is_more_than_its_tensors_show_bounds_the_size():
    text = reference(
        "return F.multilabel_margin_loss(x, y)",
        inputs="torch.randn(4, 33), torch.randint(0, 33, (4, 33))",
        arguments="x, y",
    )
    (x, _), note, _ = find(text, X, indices("y", 33, 4, 33))
    assert note == ""
    assert 3 * math.prod(x.shape) * x.shape[1] / 66.9e12 < 20e-3

    text = reference(
        "return self.f(x, y)", "self.f = nn.Bilinear(33, 24, 4)", "torch.randn(4, 33), torch.randn(4, 24)", "x, y"
    )
    (x, _), note, _ = find(text, X, spec("y", 4, 24))
    assert note == ""
    assert 2 * x.shape[0] * 4 * 33 * 24 / 66.9e12 < 2e-3


def test_lengths_that_meet_in_a_product_stay_equal():
    text = reference("return x @ y", inputs="torch.randn(4, 33), torch.randn(33, 6)", arguments="x, y")
    (x, y), note, _ = find(text, X, spec("y", 33, 6))
    assert note == ""
    assert x.shape[1] == y.shape[0]
    assert x.shape[0] > 4
    assert y.shape[1] > 6


def test_batches_that_are_walked_together_stay_equal():
    inputs = "torch.randn(4, 33), torch.randn(4, 6)"
    forward = "return torch.stack([F.relu(a).sum() + b for a, b in zip(x, y)])"
    (x, y), _, _ = find(reference(forward, inputs=inputs, arguments="x, y"), X, spec("y", 4, 6))
    assert x.shape[0] == y.shape[0]


def test_a_size_that_fits_another_one_by_rounding_alone_stays():
    inputs = "torch.randn(4, 3, 14, 7), torch.randn(4, 3, 7, 4)"
    text = reference("return F.max_pool2d(x, 3, 2, 1) + y", inputs=inputs, arguments="x, y")
    (x, y), _, _ = find(text, spec("x", 4, 3, 14, 7), spec("y", 4, 3, 7, 4))
    assert (x.shape[2:], y.shape[2:]) == ((14, 7), (7, 4))
    assert x.shape[0] == y.shape[0] > 4


def test_what_parameters_fix_stays_and_the_batch_grows():
    (x,), note, _ = find(reference("return self.f(x)", "self.f = nn.Linear(33, 8)"), X)
    assert note == ""
    assert x.shape[1] == 33
    assert x.shape[0] >= 1 << 16


def test_a_size_of_which_a_part_is_read_stays_near_it_and_the_batch_grows():
    text = reference("return self.f(x[:, 0])", "self.f = nn.Linear(16, 8)", inputs="torch.randn(4, 33, 16)")
    (x,), _, _ = find(text, spec("x", 4, 33, 16))
    assert x.shape[0] >= 1 << 12
    assert x.shape[1] <= 64


def test_an_image_whose_features_are_folded_into_fixed_rows_keeps_its_size():
    text = reference("return self.f(x.view(-1, 32))", "self.f = nn.Linear(32, 8)", inputs="torch.randn(6, 2, 4, 4)")
    (x,), _, _ = find(text, spec("x", 6, 2, 4, 4))
    assert x.shape[1:] == (2, 4, 4)
    assert x.shape[0] > 6


@pytest.mark.parametrize("groups", [1, 2])
def test_channels_of_a_transposed_convolution_stay(groups):
    layer = f"self.f = nn.ConvTranspose3d(4, 64, 4, stride=2, padding=1, groups={groups})"
    text = reference("return self.f(x)", layer, inputs="torch.randn(3, 4, 6, 10, 12)")
    (x,), note, _ = find(text, spec("x", 3, 4, 6, 10, 12))
    assert note == ""
    assert x.shape[1] == 4 and math.prod(x.shape) > 1 << 16


def test_bounds_of_indices_grow_with_the_size_that_they_index():
    text = reference("return x.gather(1, i)", inputs="torch.randn(4, 33), torch.randint(33, (4, 9))", arguments="x, i")
    (x, i), _, _ = find(text, X, indices("i", 33, 4, 9))
    assert x.shape[1] > 33
    assert i.high == x.shape[1]


def test_bounds_of_indices_into_a_table_stay():
    text = reference("return self.t(x)", "self.t = nn.Embedding(16, 8)", inputs="torch.randint(16, (16, 9))")
    (x,), _, _ = find(text, indices("x", 16, 16, 9))
    assert x.shape[0] > 16
    assert x.high == 16


def test_a_loop_over_a_size_is_not_unrolled_further():
    text = reference("h = x[0]\nfor row in x[1:]:\n    h = torch.tanh(h + row)\nreturn h")
    (x,), _, _ = find(text, X)
    assert x.shape[0] == 4
    assert x.shape[1] > 33


def test_a_check_of_values_is_taken_as_it_goes_at_the_proof_size():
    checked = "if (x > 1000).any():\n    raise ValueError('large')\nreturn F.relu(x)"
    (x,), note, _ = find(reference(checked), X)
    assert note == ""
    assert math.prod(x.shape) > 1 << 22


@pytest.mark.parametrize(
    ("forward", "init", "reason"),
    [
        ("return x + self.p", "self.p = nn.Parameter(torch.randn(4, 33))", "sizes_are_fixed"),
        ("return x.view(2, 66).sum(0)", "pass", "sizes_are_fixed"),
        ("return x[x > 0].sum()", "pass", "depends_on_values"),
        ("return torch.zeros(int(x.abs().max()) + 2) + x.sum()", "pass", "depends_on_values"),
        ("return torch.from_numpy(np.tanh(x.numpy()))", "import numpy as np; globals()['np'] = np", "does not run"),
    ],
)
def test_a_reference_that_cannot_be_scaled_says_why_and_stays_as_it_is(forward, init, reason):
    text = reference(forward, init)
    measure, note, unchanged = find(text, X)
    assert measure == []
    assert reason in note
    assert unchanged == text


def test_a_task_has_both_sizes_and_its_text_gives_the_large_one(examine):
    task = examine(reference("return torch.softmax(x, -1)"))
    assert isinstance(task, Task), task
    assert task.inputs == (X,)
    assert [(one.name, one.kind, one.dtype) for one in task.measure] == [("x", "normal", "float32")]
    assert math.prod(task.measure[0].shape) > 1 << 22
    assert str(task.measure[0].shape)[1:-1] in task.reference
    assert task.measure_note == ""


def test_a_proof_size_that_is_too_much_work_shrinks_where_sizes_are_free():
    text = reference("return self.f(x)", "self.f = nn.Linear(512, 512)", inputs="torch.randn(4096, 512)")
    found = find_measure(text, [asdict(spec("x", 4096, 512))])
    ((rows, width),) = [one["shape"] for one in found["inputs"]]
    assert width == 512 and 3 <= rows < 4096
    assert "inputs" not in find_measure(text, [asdict(spec("x", 8, 512))])
