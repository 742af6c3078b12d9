"""Modules that a class is made from are looked for among the classes of its tree."""

import pytest
import torch

from musadata.mining.reading.parsing import Definition
from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import write_slice
from musadata.sources.trees import MemoryTree
from tests.mining.slicing.test_slicing import run

PARTS = """
from torch import nn

class Base(nn.Module):
    def forward(self, x):
        return self.layer(x)

class Narrow(Base):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, 4)
        self.features = 4

class Reader(Base):
    def __init__(self, width, depth=1):
        super().__init__()
        self.layer = nn.Linear(width, 5)

def narrow():
    return Narrow(width=6)
"""
NETS = """
from torch import nn

class Head(nn.Module):
    def __init__(self, trunk, classes):
        super().__init__()
        self.trunk = trunk
        self.last = nn.Linear(trunk.features, classes)

    def forward(self, x):
        return self.last(self.trunk(x))

class ByName(nn.Module):
    def __init__(self, reader, width):
        super().__init__()
        self.reader = reader
        self.width = width

    def forward(self, x):
        return self.reader(x) / self.width

class ByClass(nn.Module):
    def __init__(self, reader, width):
        super().__init__()
        self.first = reader(width)

    def forward(self, x):
        return self.first(x)

class Plain(nn.Module):
    def __init__(self, act, width):
        super().__init__()
        self.act, self.layer = act, nn.Linear(width, width)

    def forward(self, x):
        return self.act(self.layer(x)) * self.layer.weight.shape[0]
"""


def variants(name: str) -> tuple[Slicer, list[Definition]]:
    slicer = Slicer(PackageIndex(MemoryTree({"parts.py": PARTS.encode(), "nets.py": NETS.encode()})))
    module = slicer.index.parse("nets.py")
    definition = next(item for item in slicer.module_classes(module) if item.names[0] == name)
    return slicer, [made for made, _ in slicer.fitting.variants(module, definition)]


@pytest.mark.parametrize(
    ("name", "arguments", "width", "out"),
    [
        ("Head", [3], 6, 3),  # the class that has `features`, as its own file constructs it
        ("ByName", [7], 7, 5),  # both take the same `width`
        ("ByClass", [7], 7, 5),
    ],
)
def test_a_class_with_the_attributes_or_the_name_is_fixed(name, arguments, width, out):
    slicer, [made] = variants(name)
    model = run(write_slice(slicer, made)[0])["Model"](*arguments)
    assert model(torch.ones(2, width)).shape == (2, out)


def test_an_argument_that_no_class_fits_stays_open():
    assert variants("Plain")[1] == []


NAMED = """
from torch import nn

class WordList:
    def __init__(self, size=5):
        self.size = size

    def pad(self):
        return 1

class Model(nn.Module):
    def __init__(self, word_list, width):
        super().__init__()
        self.words = nn.Embedding(word_list.size, width, word_list.pad())

    def forward(self, x):
        return self.words(x)
"""


def test_an_argument_that_is_named_like_a_class_without_arguments_gets_one():
    slicer = Slicer(PackageIndex(MemoryTree({"nets.py": NAMED.encode()})))
    module = slicer.index.parse("nets.py")
    [definition] = slicer.module_classes(module)
    [made] = [made for made, _ in slicer.fitting.variants(module, definition)]
    assert run(write_slice(slicer, made)[0])["Model"](3)(torch.ones(2, 6).long()).shape == (2, 6, 3)
