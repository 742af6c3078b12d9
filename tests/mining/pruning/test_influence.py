"""Conditions that sizes of inputs do not change, through arguments, closures, attributes and calls."""

import pytest

from tests.mining.pruning.test_pruning import model, pruned

TOP = """
from functools import partial, reduce


class Bag:
    def __init__(self, size):
        self.size = size
        self.items = {}


class Open:
    def __init__(self, **given):
        for name, value in given.items():
            setattr(self, name, value)


class Pair(tuple):
    def __getitem__(self, key):
        return tuple.__getitem__(self, key)


def scaled(x, kernel, factor=2, how="sum", seen=None):
    if factor == 3 or how == "mean":
        x = x * 2
    return x


def small(n):
    return n < 80


def leading(x, rank):
    return x.dim() - rank, x.shape[0]


def grow(bag, value):
    bag["value"] = value


def outer(rank, last=False):
    def inner(x):
        if rank == 3:
            x = x * 2
        return x
    return inner


class Step(nn.Module):
    def __init__(self, rank=1):
        super().__init__()
        self.rank = rank

    def forward(self, x, state=None, deep=0):
        if deep >= 3:
            x = x * 2
        if x.size(0) > 80 and deep < 5:
            return self(x[1:], state, deep + 1)
        return x


class Choice(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank

    def forward(self, x):
        if self.rank == 2:
            x = x * 2
        return x
"""
INIT = """
self.width = 1
self.rank = 1
self.step = Step()
self.bag = Bag(3)
self.open = Open(n=1)
self.two = nn.ModuleList([Choice(1), Choice(2)])
self.n = 1
"""

DECIDED = [
    "return scaled(x, self.rank, factor=self.rank + 1)",
    "n = self.rank\nif n > 1:\n    x = x * 2\nreturn F.relu(x)",
    "rest = [self.rank, 2]\na, b = rest\nif a + b == 4:\n    x = x * 2\nreturn F.relu(x)",
    "make = outer if mask is None else partial(outer, last=True)\nreturn F.relu(make(self.rank)(x))",
    "f = outer(self.width)\nfor t in range(x.size(0)):\n    x = f(x)\nreturn F.relu(x)",
    "f = partial(scaled, factor=self.width)\nx = f(x, 1)\nreturn F.relu(x)",
    "if x.size(0) < 80:\n    x = scaled(x, 2, how='sum')\nreturn F.relu(x)",
    "n = 0\nfor item in range(self.rank):\n    n += 1\nif n == 4:\n    x = x * 2\nreturn F.relu(x)",
    "d = {'a': self.rank}\nif d['a'] == 2:\n    x = x * 2\nreturn F.relu(x)",
    "lead, size = leading(x, 1)\nreturn scaled(F.relu(x[:size]), 1, lead)",
    "pair = Pair((x, 3))\nreturn scaled(F.relu(pair[0]), 1, self.rank)",
    "if x.size(0) > 80:\n    x = x * Bag(1).size\nreturn scaled(F.relu(x), self.open, self.rank)",
    "large = self.rank > 3\nif large and x.size(0) > 80:\n    x = x * 2\nreturn F.relu(x)",
]
LEFT = [
    "return scaled(x, 1, factor=x.size(0))",
    "if x.size(0) > 80:\n    return scaled(x, 1, 3)\nreturn scaled(x, 1)",
    "f = partial(scaled, factor=x.size(0))\nreturn f(x, 1)",
    "d = {'a': 1}\ngrow(d, x.size(0))\nif d.get('value') == 80:\n    x = x * 2\nreturn F.relu(x)",
    "d = {'value': 1}\ne = d\ne['value'] = x.size(0)\nif d['value'] == 80:\n    x = x * 2\nreturn F.relu(x)",
    "n = 0\nfor t in range(x.size(0)):\n    n += 1\nif n == 80:\n    x = x * 2\nreturn F.relu(x)",
    "n = 0\nwhile x.size(0) > 90:\n    n = 1\n    x = x[1:]\nif n == 1:\n    x = x * 2\nreturn F.relu(x)",
    "n = 0\nfor k in (1, 2):\n    if len(x) < 40:\n        break\n    n = k\nif n:\n    x = x * 2\nreturn F.relu(x)",
    "if self.n == 2:\n    x = x * 2\nself.n = 2\nreturn F.relu(x)",
    "if small(x.size(0)):\n    return F.relu(x)\nreturn x * 2",
    "ok = not small(x.size(0))\nif ok:\n    x = x * 2\nreturn F.relu(x)",
    "return self.step(F.relu(x))",
    "def f(x, n=x.size(0)):\n    if n == 80:\n        x = x * 2\n    return x\nreturn F.relu(f(x))",
    "f = outer(x.size(0))\nreturn F.relu(f(x))",
    "n = reduce(lambda a, b: a * b, x.shape)\nif n == 80:\n    x = x * 2\nreturn F.relu(x)",
    "setattr(self, 'n', x.size(0))\nif self.n == 80:\n    x = x * 2\nreturn F.relu(x)",
    "lead, size = leading(x, 1)\nreturn scaled(F.relu(x), 1, size)",
    "lead = leading(x, 1)\nlead, size = lead\nreturn scaled(F.relu(x), 1, size)",
    "pair = Pair((x, x.size(0)))\nif pair[1] == 80:\n    x = x * 2\nreturn F.relu(x)",
    "if x.size(0) > 80:\n    self.open = Open(n=2)\nif self.open.n == 2:\n    x = x * 2\nreturn F.relu(x)",
    "if x.size(0) > 80:\n    self.bag = Bag(x.size(0))\nif self.bag.size == 80:\n    x = x * 2\nreturn F.relu(x)",
    "if torch.rand(()) > 2:\n    x = x * 2\nreturn F.relu(x)",
]


@pytest.mark.parametrize("forward", DECIDED)
def test_what_inputs_cannot_influence_is_decided(forward):
    assert "x * 2" not in pruned(model(forward, INIT, arguments="self, x, mask=None", top=TOP))


@pytest.mark.parametrize("forward", LEFT)
def test_what_sizes_are_seen_to_change_stays(forward):
    assert "x * 2" in pruned(model(forward, INIT, arguments="self, x, mask=None", top=TOP))
