"""Models that functions make from other classes of a tree and from what they are given."""

import inspect

import pytest
import torch

from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import write_slice
from musadata.mining.slicing.opened_constructions import opened_constructions
from musadata.sources.trees import MemoryTree
from tests.mining.slicing.test_slicing import run

NETS = """
from torch import nn

class Part(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.layer = nn.Linear(size, width)

    def forward(self, x):
        return self.layer(x)

class Net(nn.Module):
    def __init__(self, first, second, width, drop):
        super().__init__()
        self.first, self.second, self.width, self.drop = first, second, width, drop

    def forward(self, x):
        return self.second(self.first(x))
"""
BUILD = "def build({given}):\n    first = Part({size}, width)\n    return Net(first, Part(width, 3), width, 0.5)\n"


def made(files: dict[str, str], settings: dict[str, str]) -> list[type]:
    index = PackageIndex(MemoryTree({path: text.encode() for path, text in files.items()}))
    slicer = Slicer(index)
    module = index.parse("nets.py")
    [definition] = [item for item in slicer.module_classes(module) if item.names[0] == "Net"]
    users = [index.parse(path) for path in files if path != "nets.py"]
    found = opened_constructions(index, module, definition, users, settings)
    return [run(write_slice(slicer, variant)[0])["Model"] for variant, _ in found]


@pytest.mark.parametrize(
    ("given", "size", "arguments"),
    [
        ("data, width", "data.words.count", {"count": 5, "width_": 4}),
        ("data, width", "len(data)", {"n_data": 5, "width_": 4}),
        ("args, width", "args.size", {"width_": 4}),
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_a_function_is_given_are_arguments(given, size, arguments, elsewhere):
    build = BUILD.format(given=given, size=size)
    files = {"nets.py": NETS if elsewhere else NETS + build}
    files |= {"train.py": f"from nets import Net, Part\n\n{build}"} if elsewhere else {}
    [model] = made(files, {"size": "5"})
    assert list(inspect.signature(model).parameters) == list(arguments)
    net = model(**arguments)
    assert (net.width, net.drop) == (4, 0.5)
    assert net(torch.zeros(2, 5)).shape == (2, 3)


def test_a_construction_without_other_classes_of_the_tree_opens_nothing():
    build = "def build(first, second):\n    return Net(first, second, 8, 0.5)\n"
    assert made({"nets.py": NETS + build}, {}) == []


def test_arguments_that_a_star_hands_on_open_nothing():
    build = "def build(width, *rest):\n    given = [width]\n    return Net(Part(width, 3), *given)\n"
    assert made({"nets.py": NETS + build}, {}) == []
