"""Other arguments for a constructor: these references are our own."""

import pytest
import torch

from musadata.verifier.sandboxed.other_arguments import vary_arguments, with_defaults


def test_one_argument_at_a_time_is_another_one_that_matters():
    assert list(vary_arguments([3, "mean", True, 1e-5], lambda _: True)) == [
        [4, "mean", True, 1e-5],
        [3, "mean", False, 1e-5],
        [3, "mean", True, 0.375],
    ]
    assert list(vary_arguments([3, 2.0], lambda trial: trial[0] == 2)) == [[2, 2.0]]


@pytest.mark.parametrize(("value", "other"), [(96, 128), ((3, 3), (4, 4)), (-1, 0), (0.5, 0.75)])
def test_sizes_stay_as_even_as_they_were(value, other):
    assert next(vary_arguments([value], lambda _: True)) == [other]


def test_what_a_reference_leaves_to_its_defaults_is_an_argument_as_well():
    class Model:
        def __init__(self, size, eps=1e-5, mode="mean", weight=torch.float32, bias=True):
            pass

    assert with_defaults(Model, [8]) == [8, 1e-5, "mean"]
    assert with_defaults(Model, [8, 0.5, "sum"]) == [8, 0.5, "sum"]
    assert with_defaults(torch.nn.Module, []) == []
