"""What earlier values of arguments decide, and constructors that draw from other generators than torch's."""

import pytest

from tests.mining.pruning.test_pruning import model, pruned


@pytest.mark.parametrize(
    ("forward", "left"),
    [
        ("if scale is not None:\n    scale = scale * 2\nelse:\n    scale = 1.0\nreturn F.relu(x) * scale", False),
        ("scale = None if scale is None else scale * 2\nreturn F.relu(x)", False),
        ("scale = x.sum() if x.sum() > 1e6 else None\nif scale is not None:\n    scale * 2\nreturn F.relu(x)", False),
        (
            "for n in x.shape:\n    if scale is not None:\n        x = x + scale * 2\n    scale = n or None\nreturn x",
            True,
        ),
    ],
)
def test_an_argument_decides_as_it_was_given_until_it_is_assigned(forward, left):
    text = pruned(model(forward, arguments="self, x, scale=None"))
    assert ("scale * 2" in text) is left


def test_a_constructor_that_draws_from_numpy_and_random_can_be_pruned():
    top = "import random\n\nimport numpy as np\n\n\n"
    init = """
    self.weight = nn.Parameter(torch.from_numpy(np.random.randn(6)).float() + random.random())
    if bias:
        self.bias = nn.Parameter(torch.zeros(6))
    """
    text = pruned(model("return x * self.weight", init, "self, bias=False", top=top))
    assert "np.random.randn" in text
    assert "self.bias" not in text
