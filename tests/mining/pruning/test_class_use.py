"""Methods of classes that a reference names without making instances of them."""

import pytest

from tests.mining.pruning.test_pruning import model, pruned

PADDED = """
class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = Norm(width)

    @staticmethod
    def padding(size):
        return size // 2

    def forward(self, x):
        return self.norm(x)


"""


@pytest.mark.parametrize("made", ["Layer(6)", "globals()['Layer'](6)"])
def test_a_class_that_lends_a_function_and_may_be_made_keeps_the_rest(made):
    forward = f"x = F.pad(x, (self.pad, 0))\nif x.sum() > 1e6:\n    x = {made}(x)\nreturn F.relu(x)"
    text = pruned(model(forward, "self.pad = Layer.padding(2)", top=PADDED))
    assert "def padding" in text and "self.norm = Norm(width)" in text and "class Norm" in text


CHECKED = """
class Checked(nn.Module):
    def check(self, x):
        {more}raise NotImplementedError

    def forward(self, x):
        self.check(x)
        return F.relu(x)


class Matrix(Checked):
    def check(self, x):
        assert x.dim() == 2


"""


@pytest.mark.parametrize(
    "forward",
    [
        "(Checked() if x.sum() > 1e6 else self.layer)(x)",
        "Checked.check(self.layer, x) if x.sum() > 1e6 else self.layer(x)",
    ],
)
def test_a_method_that_subclasses_override_stays_where_it_may_be_called(forward):
    text = pruned(model(f"return {forward}", "self.layer = Matrix()", top=CHECKED.format(more="")))
    assert "raise NotImplementedError" in text
    assert "assert x.dim() == 2" in text


def test_a_method_of_a_base_stays_where_a_class_with_instances_does_not_override_it():
    top = CHECKED.format(
        more="if x.shape[0] > 80:\n            self.refuse(x)\n        return\n\n    def refuse(self, x):\n        "
    )
    text = pruned(model("return self.layer(x)", "self.layer = Checked()", top=top))
    assert "def refuse" in text
