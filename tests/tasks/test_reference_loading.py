import inspect

import pytest
import torch

from musadata.tasks.reference_loading import BadReference, build_model, load_reference

GOOD = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))
    def forward(self, x):
        return x * self.weight

def get_inputs():
    return [torch.randn(2, 3)]

def get_init_inputs():
    return [3]
"""


def test_a_reference_builds_the_same_parameters_for_the_same_seed():
    reference = load_reference(GOOD)
    first, again, other = (build_model(reference, seed).weight for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    torch.manual_seed(1)
    assert torch.equal(first, torch.randn(3))


def test_the_source_of_a_loaded_model_can_be_inspected():
    assert "x * self.weight" in inspect.getsource(load_reference(GOOD).Model)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (GOOD.replace("class Model", "class Other"), "defines no Model"),
        (GOOD.replace("def get_inputs", "def gimme"), "defines no get_inputs"),
        (GOOD.replace("class Model(nn.Module)", "class Model"), "not an nn.Module"),
        ("x = 1", "defines no Model nor get_inputs nor get_init_inputs"),
    ],
)
def test_a_text_without_the_form_of_a_task_is_refused(source, what):
    with pytest.raises(BadReference, match=what):
        load_reference(source)


def test_a_model_is_built_in_the_mode_that_its_constructor_leaves():
    assert build_model(load_reference(GOOD), 0).training
    ends = GOOD.replace("torch.randn(size))\n", "torch.randn(size))\n        self.eval()\n")
    assert not build_model(load_reference(ends), 0).training
