"""References whose results depend on the mode end their constructor with `self.eval()`; others stay as they are."""

import pytest
from torch import nn

from musadata.records import Reject, Task
from musadata.tasks.constructor_text import end_constructor_with
from musadata.tasks.reference_loading import build_model, load_reference
from tests.tasks.conftest import reference

DEPENDS = {
    "dropout": ("return F.relu(self.d(x))", "self.d = nn.Dropout(0.3)"),
    "batch norm": ("return self.n(x)", "self.n = nn.BatchNorm1d(33)"),
    "instance norm with running statistics": (
        "return self.n(x[None])",
        "self.n = nn.InstanceNorm1d(4, track_running_stats=True)",
    ),
    "RReLU": ("return self.r(x)", "self.r = nn.RReLU()"),
    "own branch": ("return x.exp() if self.training else x.sin()", "pass"),
    "a part": ("return self.f(x)", "self.f = nn.Sequential(nn.Linear(33, 5), nn.Sigmoid(), nn.Dropout())"),
    "operators alone": ("return (x * 1.0 if self.training else x).exp()", "pass"),
    "fails in training": ("return self.n(x[:1]) + x", "self.n = nn.BatchNorm1d(33)"),
}
SAME = {
    "no dropout": ("return F.relu(self.d(x))", "self.d = nn.Dropout(0.0)"),
    "no running statistics": ("return self.n(x[None])", "self.n = nn.InstanceNorm1d(4)"),
    "frozen": ("return self.n(x)", "self.n = nn.BatchNorm1d(33).eval()"),
    "attention": ("return self.a(x, x, x)[0]", "self.a = nn.MultiheadAttention(33, 3)"),
    "linear": ("return self.f(x)", "self.f = nn.Linear(33, 2)"),
}


@pytest.mark.parametrize("body", DEPENDS.values(), ids=DEPENDS)
def test_a_reference_that_depends_on_the_mode_leaves_evaluation_mode(examine, body):
    task = examine(reference(*body))
    assert isinstance(task, Task), task
    assert task.reference.count("self.eval()") == 1
    assert not any(part.training for part in build_model(load_reference(task.reference), 0).modules())


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_a_reference_that_does_the_same_in_both_modes_is_left_alone(examine, body):
    task = examine(reference(*body))
    assert isinstance(task, Task), task
    assert "self.eval()" not in task.reference


def test_random_numbers_in_both_modes_stay_nondeterministic(examine):
    assert examine(reference("return F.dropout(x, 0.5).exp()")).reason == "nondeterministic"


def test_a_model_that_refuses_evaluation_mode_is_rejected(examine):
    text = reference("return self.d(x).exp()", "self.d = nn.Dropout()")
    stubborn = text.replace(
        "    def forward", "    def train(self, mode=True):\n        return self\n\n    def forward"
    )
    assert examine(stubborn).reason in ("training_mode", "nondeterministic")
    early = text.replace(
        "        self.d =", "        if True:\n            self.d = nn.Dropout()\n            return\n        self.d ="
    )
    result = examine(early)
    assert isinstance(result, Reject) and result.reason == "training_mode"


@pytest.mark.parametrize(
    ("bases", "model"),
    [
        (
            "class Base(nn.Module):\n    def __init__(self, size, *, p: float = 0.5, **more):\n"
            "        super().__init__()\n        self.size, self.p = size, p\n",
            'class Model(Base):\n    """A model."""\n',
        ),
        (
            "class Base(nn.Module):\n    def __init__(self, size, p=0.5):\n        super().__init__()\n"
            "        self.size, self.p = size, p\nclass Other(Base):\n    pass\n",
            "class Model(Other):\n    @torch.no_grad()\n    def forward(self, x):\n        return x\n",
        ),
        ("", "class Model(nn.Sequential):\n    pass\n"),
    ],
)
def test_an_inherited_constructor_keeps_its_arguments(bases, model):
    rest = "def get_inputs():\n    return []\ndef get_init_inputs():\n    return [nn.ReLU()]\n"
    text = end_constructor_with(f"import torch\nfrom torch import nn\n{bases}{model}{rest}")
    kind = load_reference(text).Model
    made = kind(nn.ReLU()) if not bases else kind(3, p=0.25)
    assert not made.training
    assert not bases or (made.size, made.p) == (3, 0.25)
