"""What a repository's tests show of its modules is recorded, whatever these tests do."""

import pytest

from musadata.config import SourceConfig, SourceType
from musadata.mining.miner import Miner
from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.harvested import Harvest
from musadata.sandbox import Sandbox
from musadata.sources.code import CodeFiles
from musadata.sources.trees import MemoryTree

BLOCKS = """
from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class Config:
    width: int = 64
    heads: int = 4


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


class Block(nn.Module):
    def __init__(self, config, gate, norm=nn.LayerNorm):
        super().__init__()
        self.heads = config.heads
        self.norm, self.gate = norm(config.width), gate(config.width)
        self.mix = nn.Linear(config.width, config.width)

    def forward(self, tokens, mask=None):
        x = self.norm(tokens).unflatten(-1, (self.heads, -1)).flatten(-2)
        x = self.gate(self.mix(x))
        return x if mask is None else x * mask[..., None]


class Absent(nn.Module):
    def forward(self, x):
        return x


def centre(x, dim=-1, *, scale=2.0, dtype=torch.float32):
    return scale * (x - torch.mean(x, dim, keepdim=True))


def describe(text):
    return text.upper()


class Table(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.table = nn.Embedding(count, width)

    def forward(self, index):
        return self.table(index).tanh()
"""
TESTS = """
import os, subprocess, time
import pytest, torch
from pkg.blocks import Block, Config, Gate, Table, centre


@pytest.fixture
def block():
    return Block(Config(width=96), gate=Gate)


@pytest.mark.parametrize("rows", range(2, 40))
def test_rows(block, rows):
    assert block(torch.randn(rows, 5, 96)).shape == (rows, 5, 96)


def test_function():
    centre(torch.randn(3, 160), 1)


def test_device(block):
    block.cuda()


def test_endless():
    while True:
        pass


def test_network():
    time.sleep(1000)
    open("left", "w").write("something")
    Table(50, 24)(torch.tensor([[3, 7], [30, 2]]))
"""
FILES = {"pkg/__init__.py": "", "pkg/blocks.py": BLOCKS, "tests/test_blocks.py": TESTS}
ABSENT = {
    "tests/test_absent.py": "import not_to_be_had\nfrom pkg.blocks import Absent\n\n\ndef test():\n    Absent()(1)\n"
}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(("torch", "musadata.mining.search", "musadata.mining.harvest.recording")) as opened:
        yield opened


@pytest.fixture(scope="module")
def shown(sandbox):
    """Harvest and class name -> examples."""
    index = PackageIndex(MemoryTree({path: text.encode() for path, text in {**FILES, **ABSENT}.items()}))
    harvest, module = Harvest(index, Slicer(index).callers, 1.5), index.parse("pkg/blocks.py")
    return harvest, module, {item.names[0]: harvest.examples(item, module, sandbox) for item in module.classes()[1:]}


def test_constructions_and_calls_are_recorded_with_their_sizes(shown):
    first = shown[2]["Block"][0]
    assert (first.init, first.inputs) == (("Config(width=96, heads=4)",), ("torch.randn((2, 5, 96))",))
    assert (first.init_keywords, first.evidence) == ((("gate", "Gate"),), "harvest")
    assert dict(first.names) == {"Config": "pkg/blocks.py", "Gate": "pkg/blocks.py"}


def test_inner_modules_and_few_cases_of_each_test_are_recorded(shown):
    assert [example.inputs for example in shown[2]["Gate"]] == [
        (f"torch.randn(({rows}, 5, 96))",) for rows in range(2, 6)
    ]


def test_a_test_that_does_not_end_costs_no_other_test_its_turn(shown):
    [example] = shown[2]["Table"]
    assert (example.init, example.inputs) == (("50", "24"), ("torch.randint(0, 31, (2, 2))",))


def test_a_test_that_lacks_a_package_says_so(shown):
    harvest, module, examples = shown
    [absent] = [item for item in module.classes() if item.names[0] == "Absent"]
    assert examples["Absent"] == []
    assert "not_to_be_had" in harvest.problems(absent, module)


def test_a_module_with_a_configuration_and_a_class_among_its_arguments_keeps_the_widths_of_its_test(sandbox):
    tree = MemoryTree({path: text.encode() for path, text in FILES.items()})
    source = CodeFiles("test", tree, SourceConfig(SourceType.DIRECTORY, harvest_seconds=1.5), seed=1)
    drafts = {item.name: item.reference for item in Miner(source).drafts("pkg/blocks.py", sandbox)}
    assert "Config(width=96, heads=4)" in drafts["Block"]
    assert "96)" in drafts["Block"].partition("get_inputs")[2]
    assert "def forward(self, x, dim=-1, scale=2.0)" in drafts["centre"]
    assert ", 1]" in drafts["centre"].partition("get_inputs")[2]
    assert "describe" not in drafts
