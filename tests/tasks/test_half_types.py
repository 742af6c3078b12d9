"""A share of mined references is recast to half precision, parameters and inputs alike."""

import torch

from musadata.tasks.half_types import TYPES, half_type, recast
from musadata.tasks.reference_loading import build_model, load_reference

LAYER = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x, mask, index):
        return self.mix(x)[index] * mask


def get_inputs():
    return [torch.randn(4, 24), torch.rand(24) > 0.5, torch.randint(0, 4, (3,))]


def get_init_inputs():
    return [24]
"""
FUNCTION = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return x.softmax(-1) @ y


def get_inputs():
    return [
        torch.rand(4, 24),
        torch.randn((24, 8)),
    ]


def get_init_inputs():
    return []
"""


def test_parameters_and_drawn_inputs_are_recast_and_nothing_else():
    reference = load_reference(recast(LAYER, "bfloat16"))
    inputs = reference.get_inputs()
    assert [item.dtype for item in inputs] == [torch.bfloat16, torch.bool, torch.int64]
    assert build_model(reference, 0)(*inputs).dtype == torch.bfloat16


def test_what_holds_no_state_gets_no_constructor():
    text = recast(FUNCTION, "float16")
    reference = load_reference(text)
    assert "__init__" not in text
    assert build_model(reference, 0)(*reference.get_inputs()).dtype == torch.float16


def test_the_share_is_what_is_asked_for_and_depends_on_the_text_alone():
    texts = [f"{LAYER}# {number}" for number in range(2000)]
    kinds = [half_type(text, 1, 0.25) for text in texts]
    assert kinds == [half_type(text, 1, 0.25) for text in texts]
    assert 0.22 < sum(map(bool, kinds)) / len(kinds) < 0.28
    assert all(kinds.count(kind) > 200 for kind in TYPES)
    assert not any(half_type(text, 1, 0.0) for text in texts)
