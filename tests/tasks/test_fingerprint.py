"""The graph fingerprint sees what is computed, and nothing else."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.disguise import DISGUISES, disguise
from musadata.records import Task
from musadata.sources.nnsmith import print_graphs
from musadata.tasks.operator_graph import ValueGraph
from tests.tasks.conftest import reference

BLOCK = '''
import torch
import torch.nn as nn

batch_size = 4
width = 24


class Gate(nn.Module):
    """A gate."""

    def __init__(self, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x * self.scale)


class Model(nn.Module):
    """Two branches that meet."""

    def __init__(self, width: int):
        super().__init__()
        self.left = nn.Linear(width, width)
        self.right = nn.Linear(width, width)
        self.gate = Gate(width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = self.left(x)  # one
        b = self.right(y)
        c = self.gate(x)
        d = self.norm(a + b)
        total = d.abs().sum(dim=1, keepdim=True)
        d += total
        return d * c, total


def get_inputs():
    return [torch.randn(batch_size, width), torch.randn(batch_size, width)]


def get_init_inputs():
    return [width]
'''


@pytest.fixture
def fingerprint(examine):
    def of(text: str) -> str:
        task = examine(text)
        assert isinstance(task, Task), (task, text)
        return task.graph_fingerprint

    return of


@pytest.mark.parametrize("name", [*DISGUISES, "all"])
def test_fingerprint_survives_disguise(fingerprint, name):
    change = {**DISGUISES, "all": disguise}[name]
    for seed in range(4):
        changed = change(BLOCK, random.Random(seed))
        assert changed != BLOCK
        assert fingerprint(changed) == fingerprint(BLOCK), changed


def test_fingerprint_survives_inlining_and_other_shapes(fingerprint):
    inlined = BLOCK.replace("self.gate = Gate(width)", "self.scale = nn.Parameter(torch.randn(width))")
    inlined = inlined.replace("self.gate(x)", "torch.sigmoid(x * self.scale)").replace("width = 24", "width = 31")
    assert fingerprint(inlined) == fingerprint(BLOCK)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.sigmoid", "torch.tanh"),
        ("dim=1", "dim=0"),
        ("keepdim=True", "keepdim=True).amax(dim=1, keepdim=True"),
        ("self.right(y)", "self.right(x) + y"),
        ("self.gate(x)", "self.gate(y)"),
        ("return d * c, total", "return d * c"),
        ("return d * c, total", "return total, d * c"),
        ("d += total", "e = d + total"),
        ("self.norm(a + b)", "self.norm(a - b)"),
    ],
)
def test_fingerprint_sees_another_computation(fingerprint, old, new):
    assert old in BLOCK
    assert fingerprint(BLOCK.replace(old, new)) != fingerprint(BLOCK)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("return x - x.mean()", "y = x.contiguous().mean()\nreturn x.detach() - y"),
        ("return F.relu(x)", "return x.clone().relu_()"),
        ("return torch.add(x, x.exp())", "return x.exp() + x"),
        ("return torch.softmax(x, dim=1)", "return x.softmax(-1)"),
        ("y = x + 1\ny[:, 0] = 0\nreturn y", "z = torch.add(x, 1)\nz.select(1, 0).fill_(0.0)\nreturn z"),
        ("return x.exp().reshape(4, 3, 11) * 2", "return x.exp().view(4, 3, 11) * 2"),
    ],
)
def test_spellings_of_one_computation_are_equal(fingerprint, left, right):
    assert fingerprint(reference(left)) == fingerprint(reference(right))


def test_write_through_a_view_is_seen(fingerprint):
    kept = fingerprint(reference("y = x + 1\nz = y[:, 0]\nreturn y"))
    written = fingerprint(reference("y = x + 1\nz = y[:, 0]\nz.mul_(0)\nreturn y"))
    assert kept != written


def test_generated_graphs_rarely_share_a_fingerprint(fingerprint):
    texts = [text for _, text in print_graphs(4, 0, 11, 6) if text]
    prints = [fingerprint(text) for text in texts]
    assert len(set(prints)) == len(prints)
    generator = random.Random(0)
    assert [fingerprint(disguise(text, generator)) for text in texts] == prints


@st.composite
def graphs(draw):
    """Operators as (name, operands by position); the first two values are an input and a parameter."""
    count = draw(st.integers(2, 9))
    names = st.sampled_from(["add", "sub", "mul", "relu", "mm"])
    return [(draw(names), draw(st.lists(st.integers(0, index + 1), min_size=1, max_size=2))) for index in range(count)]


def build(operators, order):
    """The graph with its operators entered in the given order, which must respect the operands."""
    graph = ValueGraph()
    values = {0: graph.add_leaf("input"), 1: graph.add_leaf("state")}
    for index in order:
        name, operands = operators[index]
        values[index + 2] = graph.add(name, (), [values[operand] for operand in operands])
    graph.outputs = [values[len(operators) + 1]]
    return graph.fingerprint()


@settings(max_examples=200)
@given(graphs(), st.randoms(use_true_random=False))
def test_fingerprint_does_not_depend_on_the_order_of_statements(operators, source):
    entered: list[int] = []
    while len(entered) < len(operators):
        ready = [
            index
            for index in range(len(operators))
            if index not in entered and all(operand < 2 or operand - 2 in entered for operand in operators[index][1])
        ]
        entered.append(source.choice(ready))
    assert build(operators, entered) == build(operators, range(len(operators)))


@given(graphs())
def test_fingerprint_sees_a_changed_last_operator(operators):
    operands = operators[-1][1]
    assert build([*operators[:-1], ("tanh", operands)], range(len(operators))) != build(
        operators, range(len(operators))
    )
