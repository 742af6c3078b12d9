import math
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.records import InputSpec
from musadata.tasks.sizing.sizes import groups
from musadata.tracing.execution import trace_reference
from musadata.tracing.shape_sets import (
    MANY,
    elements,
    exchanges,
    has_uneven_size,
    lengthen,
    multiply,
    sizes,
    vary_again,
    vary_shapes,
    vary_what_grows,
)


def specs_of(*shapes: tuple[int, ...]) -> tuple[InputSpec, ...]:
    return tuple(InputSpec(f"x{index}", "normal", "float32", shape) for index, shape in enumerate(shapes))


def shapes_of(specs: tuple[InputSpec, ...] | None) -> list[tuple[int, ...]]:
    return [] if specs is None else [spec.shape for spec in specs]


SHAPES = st.lists(st.lists(st.integers(1, 40), max_size=4).map(tuple), min_size=1, max_size=3)


@given(SHAPES, st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_a_reference_that_accepts_everything_is_varied_in_every_dimension_but_modestly(shapes, rotation):
    own = specs_of(*shapes)
    found = vary_shapes(own, lambda specs: True, rotation)
    if not any(own_spec.shape for own_spec in own):
        assert found is None
        return
    assert found is not None and found != own
    assert [len(spec.shape) for spec in found] == [len(spec.shape) for spec in own]
    assert elements(found) <= max(2 * elements(own), 4096)
    assert all(size >= 2 for spec, old in zip(found, own, strict=True) for size in spec.shape if size not in old.shape)


@given(SHAPES, st.integers(0, 3), st.integers(0, 4))
@settings(max_examples=100, deadline=None)
def test_what_varied_once_varies_again_to_a_third_size_with_one_execution(shapes, rotation, turn):
    own = specs_of(*shapes)
    varied = vary_shapes(own, lambda specs: True, rotation)
    tried = []
    if varied is None or (found := vary_again(own, varied, lambda specs: tried.append(specs) is None, turn)) is None:
        assert not tried
        return
    assert tried == [found] and elements(found) <= max(2 * elements(own), 4096)
    for old, other, new in zip(*map(shapes_of, (own, varied, found)), strict=True):
        for sizes_of_axis in zip(old, other, new, strict=True):
            assert len(set(sizes_of_axis)) == (1 if sizes_of_axis[0] == sizes_of_axis[1] else 3)


@given(SHAPES)
@settings(max_examples=50, deadline=None)
def test_the_search_is_bounded_and_says_so_when_nothing_varies(shapes):
    tried = []
    assert vary_shapes(specs_of(*shapes), lambda specs: tried.append(specs) is not None) is None
    assert len(tried) <= 120


def test_sizes_that_must_agree_change_together():
    """A matrix product: the inner size in both operands, the outer ones freely."""
    own = specs_of((32, 16), (16, 64))
    found = vary_shapes(own, lambda specs: specs[0].shape[1] == specs[1].shape[0])
    left, right = shapes_of(found)
    assert left[1] == right[0] != 16
    assert left[0] != 32 and right[1] != 64


def test_a_batch_varies_although_weights_fix_all_other_sizes_to_the_same_number():
    own = specs_of((4, 4, 4, 4), (4, 4, 4, 4))
    found = vary_shapes(own, lambda specs: all(spec.shape[1:] == (4, 4, 4) for spec in specs) and specs[0] == specs[0])
    assert found is not None and all(spec.shape[1:] == (4, 4, 4) and spec.shape[0] != 4 for spec in found)


def test_new_sizes_prefer_odd_ones_and_keep_factors_as_a_last_resort():
    assert sizes(64, grow=True)[0] % 2 == 1 and sizes(64, grow=False)[0] % 2 == 1
    assert sizes(64, grow=True)[0] > 64 > sizes(64, grow=False)[0]
    assert {96, 128, 32} <= set(sizes(64, grow=True))
    own = specs_of((8, 16))
    only_multiples_of_eight = vary_shapes(own, lambda specs: specs[0].shape[0] == 8 and specs[0].shape[1] % 8 == 0)
    assert shapes_of(only_multiples_of_eight) == [(8, 24)]


@given(st.integers(1, 5000), st.booleans(), st.integers(0, 9))
def test_new_sizes_are_other_sizes_and_never_one(size, grow, rotation):
    found = sizes(size, grow, rotation)
    assert found and len(set(found)) == len(found) and all(other >= 2 and other != size for other in found)


def test_where_literals_fix_the_number_of_elements_axes_trade_sizes():
    found = vary_shapes(specs_of((15, 4)), lambda specs: math.prod(specs[0].shape) == 60)
    assert found is not None and found[0].shape != (15, 4) and math.prod(found[0].shape) == 60
    assert all(math.prod(specs[0].shape) == 60 for specs in exchanges(specs_of((15, 4))))


def test_groups_come_from_the_most_plausible_to_the_single_dimension_and_never_twice():
    found = list(groups(specs_of((4, 8), (4, 8), (8,))))
    assert found[0] == {(0, 0), (1, 0)}  # the batch first
    assert len(set(found)) == len(found)
    assert frozenset({(0, 1), (1, 1), (2, 0)}) in found  # features, aligned from the right
    assert frozenset({(2, 0)}) in found


@pytest.mark.parametrize(
    ("shapes", "stays"),
    [
        (((3, 32, 40), (1, 32, 1)), {(1, 0), (1, 2)}),  # a row's scale
        (((3, 32, 40), (32, 1)), {(1, 1)}),
        (((3, 32), (1,)), {(1, 0)}),
        (((1, 64), (64, 32)), set()),  # a product of one row
        (((1, 10), (1, 7, 9)), set()),
        (((1, 3, 8, 8),), set()),
        (((1, 3), (1, 3)), set()),  # a batch of one in both
    ],
)
def test_a_size_of_one_that_broadcasts_keeps_it(shapes, stays):
    own = specs_of(*shapes)
    places = set().union(*groups(own))
    assert places == {(index, axis) for index, shape in enumerate(shapes) for axis in range(len(shape))} - stays


def test_a_scale_of_what_a_layer_makes_of_the_input_keeps_its_size_of_one():
    """Its shape does not broadcast to that of the input, as the layer has other channels."""
    own = specs_of((3, 64, 32), (1, 160, 1))

    def runs(specs):
        (batch, channels, length), (rows, outputs, columns) = (spec.shape for spec in specs)
        return channels == 64 and outputs == 160 and rows in (1, batch) and columns in (1, length + 1)

    for rotation in range(6):
        found = vary_shapes(own, runs, rotation)
        assert found is not None and found[0].shape[0] != 3
        assert found[1].shape == (1, 160, 1)


def test_powers_of_two_are_told_from_other_sizes():
    assert not has_uneven_size(specs_of((4, 8), (1,), ()))
    assert has_uneven_size(specs_of((4, 8), (3,)))


def test_sizes_that_only_the_measure_size_changes_vary_in_the_last_set():
    own, other = specs_of((5, 6, 21)), specs_of((7, 6, 17))
    measure = specs_of((128, 12, 21))
    found = vary_what_grows([own, other], measure, lambda trial: trial[0].shape[1] % 2 == 0)
    assert shapes_of(found) == [(7, 12, 17)]
    assert vary_what_grows([own, other], specs_of((128, 6, 21)), lambda trial: True) is None  # it varies already
    assert vary_what_grows([own, other], measure, lambda trial: False) is None


def test_bounds_of_integers_follow_the_size_that_they_follow_at_the_measure_size():
    def specs(rows: int, high: int) -> tuple[InputSpec, ...]:
        return (InputSpec("x", "normal", "float32", (rows, 3)), InputSpec("i", "integers", "int64", (4,), 0, high))

    (x, index) = vary_what_grows([specs(10, 10)] * 2, specs(512, 512), lambda trial: True)
    assert index.high == x.shape[0] != 10
    (_, index) = vary_what_grows([specs(10, 10)] * 2, specs(512, 10), lambda trial: True)
    assert index.high == 10


@given(st.lists(st.integers(2, 60), min_size=1, max_size=4), st.integers(1, 70))
@settings(max_examples=50, deadline=None)
def test_a_long_set_has_one_long_size_and_never_one_past_the_measure_size(shape, factor):
    own, measure = specs_of(tuple(shape)), specs_of(tuple(size * factor for size in shape))
    for found in lengthen(own, measure, lambda specs: True):
        grown = [(size, new, most) for size, new, most in zip(*map(_shape, (own, found, measure)), strict=True)]
        longer = {size for size, new, _ in grown if new > size}
        assert len(longer) == 1, grown
        assert all(new <= most for _, new, most in grown)
        assert all(new <= 2 for size, new, _ in grown if size not in longer)


def _shape(specs):
    return specs[0].shape


def test_sizes_that_meet_in_a_product_get_long_together_and_fixed_ones_stay():
    own, measure = specs_of((8, 5, 16), (16, 12)), specs_of((512, 5, 4096), (4096, 12))
    meets = lengthen(own, measure, lambda specs: specs[0].shape[2] == specs[1].shape[0])
    assert [shapes_of(found) for found in meets] == [[(2, 5, 2051), (2051, 12)], [(263, 5, 2), (2, 12)]]


def test_a_set_that_the_reference_refuses_is_tried_shorter_and_then_left_out():
    own, measure = specs_of((8, 16)), specs_of((8, 4096))
    assert [shapes_of(found) for found in lengthen(own, measure, lambda specs: specs[0].shape[1] < 600)] == [[(8, 523)]]
    assert lengthen(own, measure, lambda specs: False) == []
    assert lengthen(own, own, lambda specs: True) == []


@given(st.lists(st.integers(2, 60), min_size=1, max_size=4, unique=True), st.integers(1, 5000))
@settings(max_examples=50, deadline=None)
def test_a_set_of_many_elements_has_one_longer_size_and_a_little_more_than_five_parts(shape, factor):
    own, measure = specs_of(tuple(shape)), specs_of(tuple(size * factor for size in shape))
    found = next(iter(multiply(own, measure, lambda specs: True)), None)
    if found is None:
        rest = [(math.prod(shape) // size, most) for size, most in zip(shape, _shape(measure), strict=True)]
        assert all((most - 2) * others <= MANY for others, most in rest) or math.prod(shape) > MANY
        return
    longer = {size for size, new in zip(shape, _shape(found), strict=True) if new != size}
    assert len(longer) == 1
    assert math.prod(_shape(found)) > MANY
    assert all(new <= most for new, most in zip(_shape(found), _shape(measure), strict=True))
    assert multiply(own, measure, lambda specs: False) == []


SUM_OF_ALL = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return (x * x).sum({dims})


def get_inputs():
    return [torch.randn(4096, 8192)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("dims", "has"), [("", True), ("1", True), ("0", False)])
def test_only_few_results_of_many_elements_get_a_set_of_many_elements(dims, has):
    own, measure = specs_of((12, 80)), specs_of((4096, 8192))
    found = trace_reference(SUM_OF_ALL.format(dims=dims), [asdict(s) for s in own], 3, 2, [asdict(s) for s in measure])
    most = max(math.prod(trace["inputs"][0]["shape"]) for trace in found["traces"])
    assert (most > MANY) == has
