"""Conditions on what a call is given, checks that never refuse anything, and code for training alone."""

import pytest

from musadata.mining.arguments.attempts import Draw
from musadata.mining.search import search_and_prune
from tests.mining.pruning.test_pruning import HEAD, model, pruned

EXISTS = "def exists(x):\n    return x is not None\n\n\n"


@pytest.mark.parametrize(
    ("forward", "is_left"),
    [
        ("if exists(mask):\n    x = x * 2\nreturn F.relu(x)", False),
        ("y = None\nif exists(y) and x.sum() > 0:\n    x = x * 2\nreturn F.relu(x)", False),
        ("if mask is not None:\n    mask = mask + 1\nif exists(mask):\n    x = x * 2\nreturn F.relu(x)", False),
        (
            "if x.sum() > -1e6:\n    y = F.relu(x)\n    if y is None:\n        x = x * 2\n    x = y\nreturn x + 1",
            False,
        ),
        ("if x.dim() > 3 or x.ndim == 1 or len(x.shape) == 5:\n    x = x * 2\nreturn F.relu(x)", False),
        ("tpu = x.device.type == 'xla'\nif tpu or x.device.type == 'mps':\n    x = x * 2\nreturn F.relu(x)", False),
        ("tpu = x.device.type == 'xla'\nif mask is None and not tpu:\n    return F.relu(x)\nreturn x * 2", False),
        ("how = 'sum'\nif how == 'mean':\n    x = x * 2\nreturn F.relu(x)", False),
        ("if not isinstance(x, torch.Tensor):\n    x = x * 2\nreturn F.relu(x)", False),
        ("n = F._Reduction.get_enum('sum')\nif n == 1:\n    x = x * 2\nreturn F.relu(x)", False),
        ("n = x.size(0)\nif n == 80:\n    x = x * 2\nreturn F.relu(x)", True),
        ("n = max(x.shape)\nif n == 80:\n    x = x * 2\nreturn F.relu(x)", True),
        ("y = x if x.sum() > 1e6 else None\nif exists(y):\n    x = x * 2\nreturn F.relu(x)", False),
        ("how = 'mean' if x.sum() > 1e6 else 'sum'\nif how == 'mean':\n    x = x * 2\nreturn F.relu(x)", False),
        ("y = None\nif x.shape[0] > 80:\n    y = x\nif exists(y):\n    x = x * 2\nreturn F.relu(x)", True),
        ("if x.shape[0] > 80:\n    x = x * 2\nreturn F.relu(x)", True),
        ("if len(x) > 80:\n    x = x * 2\nreturn F.relu(x)", True),
        ("large = x.shape[0] > 80\nif large:\n    x = x * 2\nreturn F.relu(x)", True),
    ],
)
def test_conditions_on_the_kind_of_what_is_given_are_decided_and_those_on_sizes_and_values_are_not(forward, is_left):
    text = pruned(model(forward, arguments="self, x, mask=None", top=EXISTS))
    assert ("x * 2" in text) is is_left


def test_a_condition_on_what_calls_change_is_not_decided():
    forward = "if self.last is not None:\n    x = x * 2\nself.last = x\nreturn F.relu(x)"
    assert "x * 2" in pruned(model(forward, "self.last = None"))


@pytest.mark.parametrize(
    "check",
    ["if x.shape[0] > 80:\n    raise ValueError", "if x.shape[0] < 80:\n    x = x + 1\nelse:\n    raise ValueError"],
)
def test_checks_that_refuse_no_inputs_of_the_task_go(check):
    text = pruned(model(f"{check}\nreturn F.relu(x)"))
    assert "raise" not in text and "shape" not in text


def test_a_loop_that_does_nothing_goes():
    forward = "for name in ('a', 'b'):\n    if name in given:\n        x = x * given.pop(name)\nreturn F.relu(x)"
    assert "for" not in pruned(model(forward, arguments="self, x, **given")).replace("forward", "")


def test_what_a_pruned_function_always_returns_decides_on_its_caller():
    top = """
    def has_kernel(x):
        if x.dim() > 4:
            return True
        return False


    """
    text = pruned(model("if has_kernel(x):\n    x = x * 2\nreturn F.relu(x)", top=top))
    assert "has_kernel" not in text and "x * 2" not in text


def test_arguments_that_the_source_makes_are_no_reason_not_to_prune():
    source = HEAD + (
        "class Scale(nn.Module):\n    def forward(self, x):\n        return x * 2\n\n\n"
        "class Unused(nn.Module):\n    pass\n\n\n"
        "class Model(nn.Module):\n    def __init__(self, layer):\n        super().__init__()\n"
        "        self.layer = layer\n\n    def forward(self, x):\n        return F.relu(self.layer(x))\n"
    )
    shown = {"init": ["Scale()"], "init_keywords": [], "inputs": ["torch.randn(4, 6)"], "input_keywords": []}
    found = search_and_prune(source, "Wrapped", [{**shown, "evidence": "test"}], "salt")
    assert "Scale()" in found["definitions"] and "Unused" not in found["definitions"] and found["init"] == []


def test_gradients_of_own_functions_go():
    top = """
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.round(x)

        @staticmethod
        def backward(ctx, grad):
            return torch.exp(grad)


    """
    text = pruned(model("return Round.apply(x)", top=top))
    assert "torch.round" in text and "torch.exp" not in text


MODE = """
class Stepped:
    def modes(self):
        return ("s", "m")

    @property
    def mode(self):
        return self._mode

    @mode.setter
    def mode(self, value):
        if value not in self.modes():
            raise ValueError(value)
        self._mode = value


class Model(nn.Module, Stepped):
    def __init__(self, mode="s"):
        super().__init__()
        self.mode = mode

    def forward(self, x):
        {forward}
        return F.relu(x)
"""


@pytest.mark.parametrize(("forward", "is_left"), [("pass", False), ("x = x if self.mode == 's' else x + 1", False),
                                                 ("x = x * len(self.mode)", True)])  # fmt: skip
def test_properties_that_nothing_reads_go(forward, is_left):
    text = pruned(MODE.format(forward=forward), draws=(Draw("randn", (4, 6)),))
    assert ("_mode" in text) is is_left and "modes" not in text


def test_what_shows_or_copies_a_module_goes():
    init = "self._shown = shown_by('linear')\nself.linear = nn.Linear(6, 6)"
    top = """
    def shown_by(name):
        def __repr__(self):
            return repr(getattr(self, name))

        return __repr__


    """
    text = pruned(model("return self.linear(x)", init, top=top))
    assert "repr" not in text and "shown" not in text
