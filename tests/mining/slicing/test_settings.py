"""Settings of a tree: defaults of command lines and of files, and what they say of a class's arguments."""

import pytest

from musadata.mining.search import search_arguments
from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.constructions import settled_constructions
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import write_slice
from musadata.mining.slicing.hints import constructor_hints
from musadata.mining.slicing.settings import Settings, settled
from musadata.sources.trees import MemoryTree

COMMAND_LINE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-w", "--widths", default=[12, 6])
parser.add_argument("--kind", choices=["slow", "fast"])
parser.add_argument("--use-bias", action="store_true")
parser.add_argument("--ratio", type=float, default=2)
parser.add_argument("--names", type=eval, default="['a', 'b']")
parser.add_argument("--unset", type=int)
flags.DEFINE_integer("heads", 4, "of attention")
"""
CLASS = (
    "class TrainConfig:\n    depth = 3\n    def __init__(self):\n        self.width = 20\n\nclass Net:\n    depth = 9\n"
)


def tree(files: dict[str, str]) -> Slicer:
    return Slicer(PackageIndex(MemoryTree({path: text.encode() for path, text in files.items()})))


def test_settings_are_defaults_of_command_lines_classes_and_files():
    files = {
        "main.py": COMMAND_LINE,
        "options.py": CLASS,
        "conf/base.yaml": "net:\n  heads: 9\n  levels: [1, 2]\n  parts: {deep: 5}\n",
        "conf/broken.yaml": "a: [1,",
        "conf/more.json": '{"rate": 0.5, "other": [{"a": 1}]}',
    }
    assert Settings(tree(files).index).values == {
        "widths": "[12, 6]",
        "kind": "'slow'",
        "use_bias": "False",
        "ratio": "2.0",
        "names": "['a', 'b']",
        "heads": "4",
        "depth": "3",
        "width": "20",
        "levels": "[1, 2]",
        "deep": "5",
        "rate": "0.5",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("args.width", "20"),
        ("2 * self.width", "2 * 20"),
        ("cfg['width']", "20"),
        ("cfg.model['part'].width", "20"),
        ("self.data.classes", "classes"),
        ("len(self.words)", "words"),
        ("batch.width", "batch.width"),
        ("args[0]", "args[0]"),
    ],
)
def test_what_is_read_from_a_configuration_has_the_value_of_the_setting(text, expected):
    assert settled(text, {"width": "20"}) == expected


NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, dims, classes):
        super().__init__()
        first, (low, high) = dims
        self.layers = nn.Sequential(nn.Linear(first, low), nn.Linear(low, high), nn.Linear(high, classes))

    def forward(self, x):
        return self.layers(x)
"""
TRAINER = """
from net import Net

class Trainer:
    def __init__(self, args):
        self.dims = args.dims
        self.net = Net(self.dims, self.data.num_classes)
"""
PARSER = 'import argparse\n\nargparse.ArgumentParser().add_argument("--dims", default=[12, (6, 4)])\n'


def test_constructions_from_a_configuration_show_what_its_settings_are():
    slicer = tree({"net.py": NET, "train.py": TRAINER, "main.py": PARSER})
    module = slicer.index.parse("net.py")
    [definition] = slicer.module_classes(module)
    users = list(slicer.callers.users(definition))
    example, named = settled_constructions(slicer.index, module, definition, users, slicer.settings.values)
    assert example.init == ("[12, (6, 4)]", "num_classes")
    assert named.init_keywords == (("dims", "[12, (6, 4)]"), ("classes", "classes"))
    shown = {"init": example.init, "init_keywords": (), "inputs": (), "input_keywords": (), "evidence": "construction"}
    found = search_arguments(write_slice(slicer, definition)[0], "Net", [shown], "")
    assert eval(found["init"][0])[1] and len(found["init"]) == 2, found


CONFIGURED = """
from torch import nn

class Net(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        kinds = {"slow": nn.Tanh, "fast": nn.ReLU}
        self.act = kinds[cfg.act_kind]()
        if len(cfg.stages) != 3:
            raise ValueError("bad")
        self.layers = nn.Sequential(*[nn.Linear(cfg.width, cfg.width) for _ in cfg.stages])

    def forward(self, x):
        return self.act(self.layers(x))
"""


def test_a_configuration_has_the_settings_of_its_tree():
    files = {"net.py": CONFIGURED, "run.yaml": "net: {act_kind: fast, stages: [1, 1, 1], width: 40, unread: 3}\n"}
    slicer = tree(files)
    module = slicer.index.parse("net.py")
    text, cut = write_slice(slicer, slicer.module_classes(module)[0])
    hints = constructor_hints(slicer.index, cut, slicer.settings, text)
    assert hints[""]["settings"] == {"act_kind": "'fast'", "stages": "[1, 1, 1]", "width": "40"}
    found = search_arguments(text, "Net", [], "", hints)
    assert "act_kind='fast', stages=[1, 1, 1]" in found["init"][0], found
