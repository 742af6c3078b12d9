"""Modules that define `__call__` in place of `forward`."""

import ast

import pytest
import torch

from musadata.mining.reading.called_modules import name_forward
from tests.mining.slicing.test_slicing import cut, run

NET = """
from torch import nn

class Inner(nn.Module):
    def __call__(self, x):
        return x + 1

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def __call__(self, x):
        return 2 * self.inner(x)
"""


def test_a_module_that_is_called_itself_is_one_with_a_forward():
    text = cut({"net.py": NET}, "net.py", "Net")
    assert "__call__" not in text
    assert run(text)["Model"]()(torch.ones(2)).tolist() == [4, 4]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from torch import nn", "import flax.linen as nn"),
        ("return 2 * self.inner(x)", "return super().__call__(x)"),
        ("    def __init__", "    def forward(self, x):\n        return x\n\n    def __init__"),
        ("class Net(nn.Module)", "class Net(Inner)"),
    ],
)
def test_other_classes_keep_their_methods(old, new):
    text = NET.replace(old, new)
    tree, _ = name_forward(ast.parse(text), text)
    net = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Net")
    assert "__call__" in {item.name for item in net.body if isinstance(item, ast.FunctionDef)}
