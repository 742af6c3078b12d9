"""Loops and flags that the constructor decides."""

import pytest

from tests.mining.pruning.test_pruning import model, pruned


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
