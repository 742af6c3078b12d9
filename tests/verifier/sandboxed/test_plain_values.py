"""Constructor arguments that go from the reference to the candidate."""

import argparse
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from musadata.verifier.sandboxed.plain_values import NotPlain, decode, encode


class Width:
    width = 8


@dataclass
class Sizes:
    width: int = 8
    scales: tuple[float, ...] = (0.5,)


@pytest.mark.parametrize("given", [SimpleNamespace(width=8), argparse.Namespace(width=8), Sizes(), Width, Width()])
def test_an_object_that_only_holds_values_is_passed_on_by_its_attributes(given):
    found = decode(encode([given, {"inner": given}]))
    assert found[0].width == found[1]["inner"].width == 8


@pytest.mark.parametrize("given", [torch.nn.Linear(2, 2), lambda: 1, object(), SimpleNamespace(make=lambda: 1)])
def test_what_can_do_something_is_not_passed_on(given):
    with pytest.raises(NotPlain):
        encode(given)
