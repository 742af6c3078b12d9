"""Imports inside functions bind names of the file as those at its top do."""

import ast

import pytest
import torch

from musadata.mining.reading.local_imports import lift_imports
from musadata.mining.reading.parsing import AVAILABLE
from tests.mining.slicing.test_slicing import cut, run

PARTS = "from torch import nn\n\nclass Part(nn.Module):\n    def forward(self, x):\n        return x + 1\n\n"
PARTS += "def double(x):\n    return x * 2\n"
NET = """
from torch import nn
from pkg.parts import double as twice

class Net(nn.Module):
    def __init__(self, deep=True):
        super().__init__()
        if deep:
            from pkg.parts import (
                Part,
            )
            import absent_package
        self.part = Part()

    def forward(self, x):
        from .parts import double
        import math
        return double(self.part(x)) * math.floor(1.5)

    def report(self):
        return absent_package.show(self)
"""


def test_what_a_function_imports_of_the_tree_is_a_part_of_the_slice():
    text = cut({"pkg/__init__.py": "", "pkg/parts.py": PARTS, "pkg/net.py": NET}, "pkg/net.py", "Net")
    assert "pkg" not in text and "absent_package" not in text and "import math" in text
    assert run(text)["Model"]()(torch.zeros(1)).item() == 2


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    import torch\n    return torch\n",
        "def f():\n    try:\n        from apex import norm\n    except ImportError:\n        norm = None\n",
        "def f():\n    from a import x\n    return x\n\ndef g():\n    from b import x\n    return x\n",
        "def f():\n    from a import x\n    return x\n\ndef g(x):\n    return x\n",
        "def f():\n    from a import x; return x\n",
        "def f():\n    from a import *\n",
    ],
)
def test_other_imports_in_functions_stay(text):
    assert lift_imports(text, ast.parse(text), AVAILABLE) == (text, [])


def test_lines_keep_their_numbers():
    text = (
        "def f():\n    from a import (\n        x,\n        y,\n    )\n    return x + y\n\ndef g():\n    import b.c\n"
    )
    lifted, nodes = lift_imports(text, ast.parse(text), AVAILABLE)
    assert lifted == "def f():\n\n\n\n\n    return x + y\n\ndef g():\n    pass\n"
    assert len(nodes) == 2
