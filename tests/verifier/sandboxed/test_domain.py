"""What references accept beyond their declared inputs: these are our own."""

from dataclasses import asdict

import pytest
import torch

from musadata.records import InputSpec
from musadata.verifier.sandboxed.derived_shapes import derive_shapes
from musadata.verifier.sandboxed.domain import find_domain
from musadata.verifier.sandboxed.tied_choices import depends_on_choice

UNIT = InputSpec("x", "uniform", "float32", (8, 16), 0.0, 1.0)
INDICES = InputSpec("i", "integers", "int64", (30,), 1.0, 20.0)


def domain_of(function, spec, text=""):
    (found,) = find_domain(lambda values: [function(*values)], [spec], torch.nn.Embedding(50, 4), text, 0)
    return found


@pytest.mark.parametrize(
    ("function", "kind", "low", "high"),
    [
        (torch.sigmoid, "normal", -1.0, 1.0),
        (torch.log, "uniform", 1 / 1024, 8.0),
        (torch.asin, "uniform", 0.0, 1.0),
    ],
)
def test_real_values_go_as_far_as_results_are_finite(function, kind, low, high):
    found = domain_of(function, UNIT)
    assert (found.kind, found.low, found.high) == (kind, low, high)


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (torch.nn.Embedding(50, 4), 0.0, 50.0),
        (lambda i: torch.randn(50)[i], -50.0, 50.0),
        (lambda i: torch.arange(30) < i, 0.0, 20.0),  # a length has no bound
        (lambda i: torch.bincount(i, minlength=20), 0.0, 20.0),
    ],
)
def test_integers_go_as_far_as_the_reference_refuses_what_is_beyond(function, low, high):
    found = domain_of(function, INDICES)
    assert (found.low, found.high) == (low, high)


def test_masks_and_labels_are_also_what_lies_between():
    mask = InputSpec("m", "choice", "float32", (16, 64), literal="(0.0, 1.0)")
    assert domain_of(lambda m: 2.0 * m, mask).literal == "(0.0, 1.0, 0.25, 0.625)"
    assert domain_of(lambda m: torch.where((m == 0) | (m == 1), m, torch.nan), mask) == mask


def test_a_class_that_does_not_count_is_one_only_where_the_text_names_it():
    def loss(target):
        return torch.nn.functional.cross_entropy(torch.zeros(30, 20), target)

    assert not domain_of(loss, INDICES).literal
    assert "-100" in domain_of(loss, INDICES, "cross_entropy(x, t, ignore_index=-100)").literal


def test_a_choice_among_equals_matters_only_if_its_place_is_used():
    values = torch.tensor([[2.0, 1.0, 2.0, 0.0]])
    assert not depends_on_choice(lambda: [values.topk(2).values])
    assert depends_on_choice(lambda: [values.topk(1).indices])
    assert not depends_on_choice(lambda: [values.sort(stable=True).indices])


REFERENCE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 3)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.randn(96, 64)]
def get_init_inputs():
    return []
"""


def test_derived_shapes_are_as_even_as_the_declared_ones_and_leave_what_is_fixed():
    spec = {"name": "x", "kind": "normal", "dtype": "float32", "shape": [96, 64], "low": 0.0, "high": 0.0}
    assert [specs[0]["shape"] for specs in derive_shapes(REFERENCE, [spec])] == [(128, 64), (64, 64)]
    assert [specs[0]["shape"] for specs in derive_shapes(REFERENCE, [spec], uneven=True)][2:] == [(121, 64)]


SEGMENTS = InputSpec("i", "segments", "int64", (40,), 0.0, 50.0)


def sums(ids):
    return torch.zeros(50, 3).index_add_(0, ids, torch.ones(len(ids), 3))


def test_numbers_of_segments_need_not_rise_and_offsets_may_leave_some_empty():
    def lengths(offsets):
        return torch.repeat_interleave(torch.arange(40), offsets.diff(), output_size=49)

    assert domain_of(sums, SEGMENTS).kind == "integers"
    offsets = InputSpec("o", "offsets", "int64", (41,), 0.0, 50.0)
    assert domain_of(lengths, offsets).kind == "segments"


def test_integers_that_are_added_up_are_as_large_as_their_type_holds_where_no_sum_overflows():
    numbers = InputSpec("n", "integers", "int32", (30,), -9.0, 10.0)
    assert domain_of(lambda n: n.sum(), numbers).high > 1e9
    assert domain_of(lambda n: n * n * n, numbers).high == 10.0
    assert domain_of(lambda n: n / 2.0, numbers).high == 10.0


def test_other_shapes_of_an_image_are_no_squares_and_a_batch_of_one_grows():
    text = REFERENCE.replace("self.linear(x)", "x + 1")
    larger = derive_shapes(text, [asdict(InputSpec("x", "normal", "float32", (1, 16, 16)))])[0][0]["shape"]
    assert larger[0] == 2 and len(set(larger)) == 3


def test_sizes_that_one_number_sets_stay_equal():
    text = REFERENCE.replace("self.linear(x)", "x + x.mT if x.shape[0] == x.shape[1] else x[:, :0]")
    square = "n = 16\n" + text.replace("torch.randn(96, 64)", "torch.randn(n, n)")
    spec = asdict(InputSpec("x", "normal", "float32", (16, 16)))
    shapes = [specs[0]["shape"] for specs in derive_shapes(square, [spec])]
    assert shapes and all(rows == columns != 16 for rows, columns in shapes)
    assert any(rows != columns for rows, columns in (specs[0]["shape"] for specs in derive_shapes(text, [spec])))
