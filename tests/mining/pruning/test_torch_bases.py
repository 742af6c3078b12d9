"""Attributes of classes that inherit from torch's layers, and loops and flags that the constructor decides."""

import pytest

from tests.mining.pruning.test_pruning import model, pruned

TOP = """
from torch.nn.modules.batchnorm import _BatchNorm
{more}

class Master:
    def __init__(self, callback):
        self.callback = callback

    def __setstate__(self, state):
        self.callback = state


class Norm({base}):
    def __init__(self, width):
        super().__init__(width)
        self.master = Master(self._reduce)
        self.eps = 1e-3

    def _reduce(self, x):
        return x + 7.5


"""

KIND = """
class Kind(type):
    def __call__(cls, *given):
        made = super().__call__(*given)
        made.eps = 0.5
        return made


"""


@pytest.mark.parametrize(
    ("base", "more", "left"),
    [
        ("nn.BatchNorm1d", "", False),
        ("torch.nn.BatchNorm1d", "", False),
        ("Base", "\n\nclass Base(nn.BatchNorm1d):\n    def scale(self):\n        return 2\n\n", False),
        ("Base", KIND + "class Base(nn.BatchNorm1d, metaclass=Kind):\n    pass\n\n", True),
    ],
)
def test_attributes_that_neither_the_reference_nor_torchs_class_reads_go(base, more, left):
    text = pruned(model("return self.norm(x)", "self.norm = Norm(6)", top=TOP.format(base=base, more=more)))
    assert ("class Master" in text) is left
    assert "self.eps = 1e-3" in text
    assert "__setstate__" not in text


def test_loops_that_never_run_go_where_the_constructor_decides():
    forward = """
    for number in range(1, self.depth):
        x = x * number
    for number in range(len(x) - 4):
        x = x + number
    while len(x) > 100:
        x = x[::2]
    return F.relu(x)
    """
    init = "self.depth = depth\nwhile depth > 1:\n    depth = depth // 2\n    self.layer = nn.ReLU()"
    text = pruned(model(forward, init, "self, depth"), "1")
    assert "x * number" not in text
    assert "self.layer" not in text
    assert "x = x + number" in text
    assert "x = x[::2]" in text


@pytest.mark.parametrize(
    ("init", "call", "left"),
    [
        ("self.layer = nn.Dropout(0.0, 2 > 3)", "self.scale(x)", False),
        ("pass", "self.scale(x, self.training != True)", False),
        ("pass", "self.scale(x, len(x) > 100)", True),
        ("pass", "self.scale(torch.where(x > 0, x, x.sum(0 if len(x) > 100 else 1, keepdim=True)))", False),
    ],
)
def test_flags_decide_unless_a_call_hands_on_what_inputs_decide(init, call, left):
    test = "not twice" if "training" in call else "twice"
    scale = f"def scale(self, x, twice=False):\n        if {test}:\n            x = x * 2\n        return F.relu(x)"
    text = pruned(model(f"return {call}", init) + f"\n\n    {scale}\n")
    assert ("x = x * 2" in text) is left
