"""Calls of einops written as tensor methods. What einops itself gives was computed by hand from its definition."""

import pytest
import torch

from musadata.mining.reading.einops import Untranslatable, translate_call
from tests.mining.slicing.test_slicing import cut, run


def value(name, x, pattern, *operation, **sizes):
    """What the translation of a call gives."""
    texts = ["x", repr(pattern), *map(repr, operation)]
    return eval(translate_call(name, texts, {size: str(number) for size, number in sizes.items()}), {"x": x})


@pytest.mark.parametrize(
    ("pattern", "sizes", "shape", "expected"),
    [
        ("b (h w) c -> b c h w", {"h": 3}, (2, 12, 5), lambda x: x.reshape(2, 3, 4, 5).permute(0, 3, 1, 2)),
        ("b t ... -> (b t) ...", {}, (2, 3, 4, 5), lambda x: x.reshape(6, 4, 5)),
        ("... (h d) -> h ... d", {"h": 2}, (3, 4, 6), lambda x: x.reshape(3, 4, 2, 3).permute(2, 0, 1, 3)),
        ("b i -> b 1 i 1", {}, (2, 3), lambda x: x.reshape(2, 1, 3, 1)),
        ("... () -> ...", {}, (2, 3, 1), lambda x: x.reshape(2, 3)),
        (
            "b c (h p1) (w p2) -> b (h w) (p1 p2 c)",
            {"p1": 4, "p2": 3},
            (2, 3, 8, 12),
            lambda x: x.reshape(2, 3, 2, 4, 4, 3).permute(0, 2, 4, 3, 5, 1).reshape(2, 8, 36),
        ),
    ],
)
def test_rearranging_is_splitting_permuting_and_joining(pattern, sizes, shape, expected):
    x = torch.arange(torch.Size(shape).numel()).reshape(shape)
    assert torch.equal(value("rearrange", x, pattern, **sizes), expected(x))


def test_repeating_adds_axes_where_the_pattern_puts_them():
    x = torch.arange(6).reshape(2, 3)
    assert torch.equal(value("repeat", x, "b n -> b k n", k=4), torch.stack([x] * 4, 1))
    assert torch.equal(value("repeat", x, "b n -> (b r) n", r=2), x.repeat_interleave(2, 0))
    assert torch.equal(value("repeat", x, "... n -> ... (n 2)"), x.repeat_interleave(2, 1))
    assert value("repeat", x[:1], "() n -> b n", b=5).shape == (5, 3)


def test_reducing_takes_what_the_pattern_leaves_out():
    x = torch.arange(24.0).reshape(2, 4, 3)
    assert torch.equal(value("reduce", x, "b n c -> b c", "mean"), x.mean(1))
    assert torch.equal(value("reduce", x, "b (n 2) c -> b n c", "max"), x.reshape(2, 2, 2, 3).amax(2))
    with pytest.raises(Untranslatable):
        value("reduce", x, "b n c -> b c", "logsumexp")


def test_names_of_axes_become_letters_in_einsum():
    text = translate_call("einsum", ["a", "b", "'b heads i d, b heads j d -> b heads i j'"], {})
    assert text == 'torch.einsum("bhid, bhjd -> bhij", a, b)'


@pytest.mark.parametrize("pattern", ["a b -> a", "a a -> a", "(a b) -> a b", "a -> b", "a b", "(...) -> ...", "a-b"])
def test_what_a_pattern_does_not_settle_is_left_alone(pattern):
    with pytest.raises(Untranslatable):
        translate_call("rearrange", ["x", repr(pattern)], {})


CODE = """
import torch
from torch import nn
from einops import rearrange, {more}
from einops.layers.torch import Rearrange

class M(nn.Module):
    def __init__(self, heads=2):
        super().__init__()
        self.heads = heads
        self.first = nn.Sequential(Rearrange("b c (h p) -> b h (p c)", p=heads), Rearrange("b h c -> b c h"))

    def forward(self, x):
        y = rearrange(self.first(x), "b (h d) n -> b h n d", h=self.heads)
        return {call}
"""


def test_a_class_that_uses_einops_is_cut_out_with_pytorch_alone():
    text = cut({"m.py": CODE.format(more="repeat", call='repeat(y, "b h n d -> b h n d k", k=3)')}, "m.py", "M")
    assert "einops" not in text
    assert text.count("(nn.Module):") == 3
    x = torch.arange(48.0).reshape(2, 3, 8)
    folded = x.reshape(2, 3, 4, 2).permute(0, 2, 3, 1).reshape(2, 4, 6).transpose(1, 2)
    expected = folded.reshape(2, 2, 3, 4).transpose(2, 3).unsqueeze(-1).expand(-1, -1, -1, -1, 3)
    assert torch.equal(run(text)["Model"]()(x), expected)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("rearrange(x, kind + ' (h d) n -> ' + kind + ' h n d', h=2)", lambda x: x.view(2, 2, 3, 4).transpose(2, 3)),
        ("rearrange(x, f'... {last} -> {last} ...')", lambda x: x.permute(2, 0, 1)),
        ("rearrange(x, f'{kind} ... -> {kind} (...)')", lambda x: x.reshape(2, 24)),
        ("repeat(x, f'b n {last} -> (r b) n {last}', r=3)", lambda x: x.repeat(3, 1, 1)),
        ("reduce(x, f'b n {last} -> b {last}', 'max')", lambda x: x.amax(1)),
        ("reduce(x, f'b (n p) {last} -> b n 1 {last}', 'mean', p=2)", lambda x: x.view(2, 3, 2, 4).mean(2)[:, :, None]),
        ("rearrange([x, x], f'k b n {last} -> b (k n) {last}')", lambda x: torch.cat([x, x], 1)),
        ("repeat(x, f'b n {last} -> b n 2 {last}')", lambda x: torch.stack([x, x], 2)),
    ],
)
def test_a_pattern_that_is_computed_is_followed_at_run_time(call, expected):
    code = (
        "import torch\nfrom torch import nn\nfrom einops import rearrange, reduce, repeat\n\n\nclass M(nn.Module):\n"
        f"    def forward(self, x, kind='b', last='d'):\n        return {call}\n"
    )
    text = cut({"m.py": code}, "m.py", "M")
    assert "einops" not in text
    x = torch.randn(2, 6, 4)
    assert torch.equal(run(text)["Model"]()(x), expected(x))
