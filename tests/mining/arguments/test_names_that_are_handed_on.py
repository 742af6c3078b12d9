"""What the code says of an argument under another name, in a condition, or by a view. The searched code is ours."""

import pytest
from test_argument_search import run, search
from test_evidence_of_errors import module

from musadata.mining.reading.handed_names import handed_names
from musadata.mining.reading.options import find_options

PADDED = """
class Padded(nn.Module):
    def __init__(self, width, fill_type):
        super().__init__()
        if fill_type == "mirror":
            self.pad = nn.ReflectionPad2d(1)
        elif fill_type == "zero":
            self.pad = nn.ZeroPad2d(1)
        else:
            assert 0, "unknown: {}".format(fill_type)
        self.conv = nn.Conv2d(width, width, 3)

    def forward(self, x):
        return self.conv(self.pad(x))

"""


@pytest.mark.parametrize("given", ["border", "fill_type=border", "**dict(fill_type=border)"])
def test_an_option_is_one_of_those_of_the_part_that_it_is_handed_to(given):
    body = PADDED + module(f"        self.part = Padded(8, {given})", "        return self.part(x)", ", border")
    found = search(body)
    assert "reason" not in found, found
    assert found["init"] == ["'mirror'"]
    run(body, found)


def test_names_are_followed_through_several_calls_and_their_own_options_win():
    source = PADDED + "class Outer(Padded):\n    def __init__(self, edge):\n        super().__init__(8, edge)\n"
    source += "def make(border):\n    return Outer(border)\n"
    assert handed_names(source)["fill_type"] == ("edge", "border")
    assert find_options(source)["border"] == ("mirror", "zero")
    own = source + "def choose(edge):\n    return edge in ['round', 'flat']\n"
    assert find_options(own)["edge"] == ("round", "flat")


def test_an_optional_input_that_an_inner_part_calls_otherwise_is_given():
    inner = "class Inner(nn.Module):\n    def forward(self, x, mask=None):\n"
    inner += "        return x.masked_fill(mask.repeat(1, 1, x.shape[-1]) > 0.5, 0)\n\n"
    forward = "        return self.inner(self.layer(x), outer_mask)"
    body = inner + module(
        "        self.inner = Inner()\n        self.layer = nn.Linear(24, 24)",
        forward,
        inputs="x, mask=None, outer_mask=None",
    )
    found = search(body)
    assert "reason" not in found, found
    assert found["inputs"][1] == "None"


def test_widths_are_multiples_of_the_groups_of_a_view():
    body = module(
        "        self.weight = nn.Parameter(torch.ones(1, width, 1, 1))",
        "        b, c, h, w = x.shape\n        return (x * self.weight).view(b, groups, c // groups, h, w).std(2)",
        ", width, groups=32",
    ).replace("b, groups, c // groups", "b, 32, c // 32")
    found = search(body)
    assert "reason" not in found, found
    assert run(body, found).dim() == 4


def test_sides_of_an_image_are_what_a_view_or_an_assertion_says():
    layers = "        self.layer = nn.Conv2d(24, 24, 3, padding=1)"
    for forward in (
        "        return self.layer(x).view(x.shape[0], 24, 2, 2)",
        "        assert x.shape[2:] == (4, 4)\n",
    ):
        body = module(layers, forward + ("" if "return" in forward else "        return self.layer(x)"))
        found = search(body)
        assert "reason" not in found, found
        run(body, found)


def test_an_input_is_what_an_assertion_says():
    check = "(x >= 0).all(), 'inputs must be >= 0'"
    body = module("        self.w = nn.Parameter(torch.ones(1))", f"        assert {check}\n        return x * self.w")
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


def test_a_large_network_of_an_example_is_made_smaller():
    constructor = "        self.parts = nn.Sequential(*[nn.Linear(dim, dim) for _ in range(depth)])\n"
    constructor += "        self.size = img_size"
    forward = "        b, c, t, h, w = x.shape\n        assert h == self.size\n        return self.parts(x)"
    example = {"init": ["1792", "12", "224"], "init_keywords": [], "inputs": [], "input_keywords": []}
    found = search(module(constructor, forward, ", dim, depth, img_size"), [{**example, "evidence": "construction"}])
    assert "reason" not in found, found
    assert int(found["init"][1]) == 2


def test_attention_tells_its_width_and_a_probability_its_bounds():
    attention = (
        "        self.a = nn.MultiheadAttention(8, 2, batch_first=True)\n        self.w = nn.Parameter(torch.ones(1))"
    )
    for forward in ("self.a(x, x, x, need_weights=False)[0]", "torch.bernoulli(x) * self.w"):
        body = module(attention, f"        return {forward}")
        found = search(body)
        assert "reason" not in found, found
        run(body, found)
