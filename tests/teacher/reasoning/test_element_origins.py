"""Formulas of where elements come from, evaluated and compared with PyTorch."""

import dataclasses
import itertools

import pytest
import torch

from musadata.records import InputSpec, Trace
from musadata.rows import restore
from musadata.teacher.reasoning.element_origins import axis_names, element_of, origin_of
from musadata.teacher.reasoning.kernel_plan import read_calls
from musadata.tracing.execution import trace_reference

REFERENCE = """
import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, x):
        return {}


def get_inputs():
    return []


def get_init_inputs():
    return []
"""


def read_call(expression, shape):
    spec = InputSpec("x", "normal", "float32", shape, 0.0, 0.0, "")
    (trace,) = trace_reference(REFERENCE.format(expression), [dataclasses.asdict(spec)], 7, 1)["traces"]
    (call,) = read_calls(restore(Trace, trace))
    return call


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("x.roll(2, -1)", (3, 7)),
        ("x.roll((-1, 9), (0, 2))", (3, 4, 7)),
        ("x.flip(1, -1)", (2, 3, 5)),
        ("x.repeat(2, 1, 3)", (4, 5)),
        ("F.channel_shuffle(x, 3)", (2, 6, 2, 3)),
        ("F.pixel_shuffle(x, 2)", (2, 8, 2, 3)),
        ("F.pixel_unshuffle(x, 3)", (2, 2, 6, 3)),
        ("x.tril()", (4, 5)),
        ("x.triu(2)", (2, 4, 5)),
        ("x.tril(-1)", (4, 5)),
    ],
)
def test_the_formula_of_where_an_element_comes_from_is_that_of_pytorch(expression, shape):
    call = read_call(expression, shape)
    x = torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)
    expected = eval(expression, {"x": x, "F": torch.nn.functional})
    names = axis_names(expected.dim())
    assert element_of(call).endswith(f"[{', '.join(names)}]")
    formula = origin_of(call).replace("/", "//")
    if "?" in formula:
        condition, _, value = formula.strip("()").partition(" ? ")
        formula = f"{value.removesuffix(' : 0')} if {condition} else 0"
    for place in itertools.product(*map(range, expected.shape)):
        found = eval(formula, {"x": x, **dict(zip(names, place, strict=True))})
        assert float(found) == float(expected[place]), (formula, place)


def test_what_has_no_formula_by_axes_gets_none():
    assert origin_of(read_call("x.roll(2)", (3, 7))) == ""
