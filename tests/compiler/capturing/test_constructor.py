"""Candidates construct their parameters as the reference does."""

import pytest
import torch

from musadata.compiler.candidate_set import CandidateSet, read_graph
from musadata.compiler.capturing.capture import capture
from musadata.rows import plain
from musadata.tasks.reference_loading import construct, load_reference
from musadata.verifier.rules.python.legality import check_legality
from tests.compiler.references import FIXTURES, tensor

HELPERS = '''
import math
from dataclasses import dataclass

import torch
from torch import nn


def slopes(heads):
    """Not needed."""
    return torch.tensor([2.0 ** -(i + 1) for i in range(heads)])


def unused(x):
    return x


@dataclass
class Options:
    width: int
    gain: float = 0.5


class Block(nn.Module):
    """A layer with an initialisation of its own."""

    __constants__ = ["gain"]

    def __init__(self, options):
        """Make it."""
        super().__init__()
        self.linear = nn.Linear(options.width, options.width)
        self.gain = options.gain
        self.reset()

    def reset(self):
        nn.init.normal_(self.linear.weight, std=self.gain / math.sqrt(self.linear.in_features))

    def forward(self, x):
        return torch.relu(self.linear(x))


class Model(nn.Module):
    def __init__(self, width, depth, scale=2.0):
        super(Model, self).__init__()
        self.blocks = nn.ModuleList([Block(Options(width)) for _ in range(depth)])
        self.register_buffer("slopes", slopes(width))
        self.offset = nn.Parameter(torch.rand(width))
        self.scale = scale

    def forward(self, x, *, mask=None, flag=True):
        for block in self.blocks:
            x = block(x)
        return x * self.slopes + self.offset


def get_inputs():
    return [torch.randn(3, 8)]


def get_init_inputs():
    return [8, 2]
'''


def candidate_of(source: str, sets) -> str:
    graph = capture(source, [[plain(spec) for spec in specs] for specs in sets], 0)
    return CandidateSet(read_graph(graph), "key").candidate(0).source


def constructed(candidate: str, arguments, monkeypatch) -> torch.nn.Module:
    monkeypatch.setattr("torch.utils.cpp_extension.load_inline", lambda **_: None)
    space: dict = {"__name__": "candidate"}
    exec(compile(candidate, "<candidate>", "exec"), space)
    torch.manual_seed(7)
    return space["ModelNew"](*arguments)


def assert_same_start(source: str, candidate: str, monkeypatch) -> None:
    model, arguments = construct(load_reference(source), 7)
    wanted, found = model.state_dict(), constructed(candidate, arguments, monkeypatch).state_dict()
    assert list(wanted) == list(found)
    assert all(torch.equal(wanted[name], found[name]) for name in wanted)
    assert not check_legality(candidate)


@pytest.mark.parametrize("name", ["linear", "residual block", "attention"])
def test_parameters_start_as_those_of_the_reference(name, monkeypatch):
    fixture = FIXTURES[name]
    assert_same_start(fixture.source, candidate_of(fixture.source, fixture.sets), monkeypatch)


def test_what_the_constructor_needs_comes_along_and_nothing_else(monkeypatch):
    candidate = candidate_of(HELPERS, [[tensor(3, 8)], [tensor(5, 8)]])
    assert_same_start(HELPERS, candidate, monkeypatch)
    assert "super(ModelNew, self)" in candidate
    assert not any(text in candidate for text in ("unused", "torch.relu", "Not needed", "Make it", "__constants__"))
    assert candidate.count("def forward") == 1


def test_forward_takes_every_argument_and_refuses_options_that_no_kernel_is_written_for(monkeypatch):
    candidate = candidate_of(HELPERS, [[tensor(3, 8)], [tensor(5, 8)]])
    assert "def forward(self, x, *, mask=None, flag=True):" in candidate
    model = constructed(candidate, [8, 2], monkeypatch)
    for option in ({"mask": torch.zeros(1)}, {"flag": False}):
        with pytest.raises(ValueError, match="options"):
            model(torch.zeros(3, 8), **option)


def test_a_constructor_that_runs_the_forward_is_refused():
    source = HELPERS.replace("        self.scale = scale\n", "        self.shape = self(torch.zeros(1, width)).shape\n")
    graph = capture(source, [[plain(tensor(3, 8))]], 0)
    assert graph["unsupported"] == "a constructor that calls the forward"


ARGUMENTS = """
import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, features, low=-1.0, high=2, eps=1e-5, heads=2, mode="mean", gain=None, unread=3.0):
        super().__init__()
        self.norm = nn.LayerNorm(features, eps=eps)
        self.low, self.high, self.heads, self.mode, self.gain, self.unread = low, high, heads, mode, gain, unread

    def forward(self, x):
        x = self.norm(x).clamp(self.low, self.high) + 1 / self.heads
        x = x.reshape(x.size(0), self.heads, -1).sum(1)
        x = x if self.gain is None else x * self.gain
        return x.mean(0) if self.mode == "mean" else x


def get_inputs():
    return [torch.randn(3, 8)]


def get_init_inputs():
    return [8]
"""


def test_numbers_of_the_constructor_reach_the_kernels_and_other_arguments_are_refused(monkeypatch):
    candidate = candidate_of(ARGUMENTS, [[tensor(3, 8)], [tensor(5, 8)]])
    call = candidate[candidate.index("return extension.") :]
    assert all(f"self.{path}" in call for path in ("norm.eps", "low", "high", "heads"))
    assert "double high" in candidate  # an integer by chance, unlike the number of heads
    assert "int heads" in candidate
    assert "double eps" in candidate
    assert "float eps" in candidate
    assert "1e-05" not in candidate[: candidate.index("class ModelNew")]
    assert "unread" not in call
    for arguments in ([8, -1.0, 2, 1e-5, 2, "sum"], [8, -1.0, 2, 1e-5, 2, "mean", 2.0]):
        with pytest.raises(ValueError, match="options"):
            constructed(candidate, arguments, monkeypatch)(torch.zeros(3, 8))


def test_a_number_that_is_computed_with_is_written_into_the_kernels_and_other_values_are_refused(monkeypatch):
    source = ARGUMENTS.replace("1 / self.heads", "1 / self.high").replace("high=2", "high=2.0")
    candidate = candidate_of(source, [[tensor(3, 8)], [tensor(5, 8)]])
    assert "self.high" not in candidate[candidate.index("return extension.") :]
    with pytest.raises(ValueError, match="options"):
        constructed(candidate, [8, -1.0, 3], monkeypatch)(torch.zeros(3, 8))


CHOSEN = """
import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, slopes=1, weight=None, shifted=False):
        super().__init__()
        self.slopes = nn.Parameter(torch.full((slopes,), 0.25))
        self.register_buffer("weight", weight)
        self.shift = nn.Parameter(torch.ones(1)) if shifted else None

    def forward(self, x):
        x = F.prelu(x, self.slopes)
        x = x if self.shift is None else x + self.shift
        return x if self.weight is None else x * self.weight


def get_inputs():
    return [torch.randn(3, 8)]


def get_init_inputs():
    return []
"""


def test_arguments_that_change_which_parameters_there_are_are_refused(monkeypatch):
    candidate = candidate_of(CHOSEN, [[tensor(3, 8)], [tensor(5, 8)]])
    assert "TORCH_CHECK(slopes.size(0) == 1," in candidate
    for arguments in ([1, torch.ones(8)], [1, None, True]):
        with pytest.raises(ValueError, match="options"):
            constructed(candidate, arguments, monkeypatch)(torch.zeros(3, 8))


def test_options_that_reach_the_constructor_without_a_name_are_refused(monkeypatch):
    source = CHOSEN.replace("(self, slopes=1, weight=None, shifted=False):", "(self, *given, **named):").replace(
        "super().__init__()",
        "super().__init__(); slopes, weight, shifted = 1, None, False; self.doubled = named.get('doubled', False)",
    )
    candidate = candidate_of(source.replace("F.prelu(x, ", "F.prelu(x + x if self.doubled else x, "), [[tensor(3, 8)]])
    model = constructed(candidate, [], monkeypatch)
    model.doubled = True
    with pytest.raises(ValueError, match="options"):
        model(torch.zeros(3, 8))


RECURRENT = """
import torch
from torch import nn


class Model(nn.LSTM):
    def __init__(self, *sizes):
        super().__init__(*sizes)

    def forward(self, x):
        zeros = x.new_zeros(self.num_layers, x.shape[1], self.hidden_size)
        return super().forward(x, (zeros, zeros))[0]


def get_inputs():
    return [torch.randn(3, 4, 8)]


def get_init_inputs():
    return [8, 6]
"""


@pytest.mark.parametrize(("sizes", "other"), [([8, 6], [8, 6, 2]), ([8, 6, 2], [8, 6]), ([8, 6, 2], [8, 6, 3])])
def test_another_number_of_layers_is_refused_where_no_argument_has_that_name(sizes, other, monkeypatch):
    source = RECURRENT.replace("[8, 6]", str(sizes))
    candidate = candidate_of(source, [[tensor(3, 4, 8)], [tensor(5, 4, 8)]])
    with pytest.raises(ValueError, match="options"):
        constructed(candidate, other, monkeypatch)(torch.zeros(3, 4, 8))


_LAYERS = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        pairs = [(nn.Linear(width, hidden), nn.Linear(hidden, width)) for _ in range(13)]
        self.layers = nn.Sequential(*(layer for pair in pairs for layer in pair))

    def forward(self, x):
        return self.layers(x)


def get_inputs():
    return [torch.randn(4, 16)]


def get_init_inputs():
    return [16, 24]
"""


def test_weights_that_come_as_a_list_have_their_shapes_checked():
    """A model of another width would be read as one of this width."""
    source = candidate_of(_LAYERS, [[tensor(4, 16)], [tensor(5, 16)]])
    assert "list(self.parameters())" in source
    for place, shape in ((0, (24, 16)), (1, (24,)), (2, (16, 24))):
        for dim, size in enumerate(shape):
            assert f"weights[{place}].size({dim}) == {size}" in source
    assert source.count("has an unexpected shape") < 8  # of layers that are alike one is checked


def test_constants_that_parameters_hide_are_left_out():
    source = _LAYERS.replace("class Model", "width = 16\nhidden = 24\nlayers = 13\n\n\nclass Model").replace(
        "(13)", "(layers)"
    )
    source = source.replace("return [16, 24]", "return [width, hidden]")
    written = candidate_of(source, [[tensor(4, 16)], [tensor(5, 16)]])
    assert "layers = 13\n" in written and "width = 16" not in written and "hidden = 24" not in written
