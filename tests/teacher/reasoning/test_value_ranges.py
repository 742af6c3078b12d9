"""What is warned of follows from the values that can occur."""

import dataclasses

import pytest

from musadata.teacher.reasoning.kernel_plan import Call
from musadata.teacher.reasoning.pitfalls import _of_call
from musadata.teacher.reasoning.value_ranges import ranges_of
from tests.tracing.examples import traces_of


def calls(*steps):
    """Calls of (operator, operands, arguments), each making a tensor with the operator's name."""
    fact = traces_of("gelu_chain")[0].tensors[0]
    made = {"x": fact, "d": dataclasses.replace(fact, name="d")}
    found = []
    for operator, operands, arguments in steps:
        out = dataclasses.replace(fact, name=operator)
        found.append(Call(f"aten.{operator}.default", tuple(made[name] for name in operands), (out,), arguments))
        made[operator] = out
    return found


@pytest.mark.parametrize(
    ("steps", "warned"),
    [
        ([("div", "xd", "")], True),
        ([("abs", "d", ""), ("add", ["abs"], "other=1.0"), ("div", ["x", "add"], "")], False),
        ([("abs", "d", ""), ("add", ["abs"], "other=-1.0"), ("div", ["x", "add"], "")], True),
        ([("mul", "dd", ""), ("add", ["mul"], "other=1e-05"), ("log", ["add"], "")], False),
        ([("exp", "d", ""), ("div", ["x", "exp"], "")], True),  # it underflows
        ([("tanh", "x", "")], True),
        ([("clamp", "x", "min=-1.5, max=1.5"), ("tanh", ["clamp"], "")], False),
        ([("clamp", "x", "min=-1.5"), ("tanh", ["clamp"], "")], True),
        ([("sigmoid", "x", ""), ("silu", ["sigmoid"], "")], False),
        ([("_softmax", "x", "dim=1")], True),
        ([("tanh", "x", ""), ("_softmax", ["tanh"], "dim=1")], False),  # no exponential of these overflows
    ],
)
def test_only_what_the_values_can_do_is_warned_of(steps, warned):
    made = calls(*steps)
    assert bool(_of_call(made[-1], ranges_of(made))) == warned


def test_bounds_follow_from_operators():
    made = calls(("abs", "x", ""), ("clamp", ["abs"], "max=3"), ("add", ["clamp"], "other=2"), ("tanh", ["add"], ""))
    assert ranges_of(made) == {"abs": (0.0, float("inf")), "clamp": (0.0, 3.0), "add": (2.0, 5.0), "tanh": (-1.0, 1.0)}
