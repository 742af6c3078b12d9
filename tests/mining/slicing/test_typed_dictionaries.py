"""Dictionaries that name what a registry builds are evidence of constructions, and their classes become parts."""

import pytest

from musadata.mining.reading.parsing import Definition
from musadata.mining.search import search_arguments
from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import write_slice
from musadata.sources.trees import MemoryTree

REGISTRY = """
class Registry:
    def __init__(self):
        self.table = {}

    def register_module(self, name=None, module=None):
        if module is not None:
            self.table[name or module.__name__] = module
            return module
        return lambda kind: self.register_module(name, kind)


PARTS = Registry()


def build(cfg):
    if not isinstance(cfg, dict):
        raise TypeError("cfg must be a dict")
    cfg = dict(cfg)
    return PARTS.table[cfg.pop("type")](**cfg)
"""
NET = """
from torch import nn
from registry import PARTS, build

@PARTS.register_module()
class Net(nn.Module):
    def __init__(self, backbone, head, act=dict(type="Soft"), pretrained=None):
        super().__init__()
        self.backbone, self.head, self.act = build(backbone), build(head), build(act)

    def forward(self, x):
        return self.act(self.head(self.backbone(x)))
"""
PARTS = """
from torch import nn
from registry import PARTS

@PARTS.register_module()
class Body(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Conv2d(3, width, 3)

    def forward(self, x):
        return self.layer(x)

@PARTS.register_module(name="head")
class Head(nn.Conv2d):
    pass
"""
LAYERS = "from torch import nn\nfrom registry import PARTS\n\nPARTS.register_module('Soft', module=nn.Softplus)\n"
WRITTEN = """
width = 256
wide = dict(type="Net", backbone=dict(type="Body"), head=dict(type="head"))
model = dict(
    type="Net",
    backbone=dict(type="Body", width=width * 1),
    head=dict(type="head", in_channels=width, out_channels=8, kernel_size=1, bias=unknown),
    pretrained="https://host/net.pth",
)
"""
AS_DATA = "model:\n  type: Net\n  backbone: {type: Body, width: 256}\n  head: {type: head, in_channels: 256,\n"
AS_DATA += "    out_channels: 8, kernel_size: 1}\n"
BODY = "{'type': 'Body', 'width': 64}"
HEAD = "{'type': 'head', 'in_channels': 64, 'out_channels': 8, 'kernel_size': 1}"


def tree(files: dict[str, str]) -> Slicer:
    files = {"registry.py": REGISTRY, "net.py": NET, "parts.py": PARTS, "layers.py": LAYERS, **files}
    return Slicer(PackageIndex(MemoryTree({path: text.encode() for path, text in files.items()})))


def net_of(slicer: Slicer) -> Definition:
    return slicer.module_classes(slicer.index.parse("net.py"))[0]


@pytest.mark.parametrize("files", [{"configs/net.py": WRITTEN}, {"configs/net.yaml": AS_DATA}])
def test_dictionaries_of_a_class_show_its_arguments_smaller_ones_first(files):
    slicer = tree(files)
    first, second, *_ = slicer.typed.examples(net_of(slicer), {})
    assert first.init_keywords[:2] == (("backbone", BODY), ("head", HEAD))
    assert dict(second.init_keywords)["backbone"] == "{'type': 'Body', 'width': 256}"
    assert "pretrained" not in dict(first.init_keywords)


def test_what_only_training_needs_is_left_out_at_first():
    net = NET.replace("pretrained=None", "pretrained=None, loss_pixel=None")
    written = f"model = dict(type='Net', backbone={BODY}, head={HEAD}, loss_pixel=dict(type='Soft'))\n"
    slicer = tree({"net.py": net, "main.py": written})
    first, second, *_ = slicer.typed.examples(net_of(slicer), {})
    assert [name for name, _ in first.init_keywords] == ["backbone", "head"]
    assert [name for name, _ in second.init_keywords] == ["backbone", "head", "loss_pixel"]


def test_dictionaries_under_the_names_of_arguments_show_them():
    other = f"other = dict(type='Other', backbone=dict(type='Body'), head={HEAD})\nparts = dict(backbone={BODY})\n"
    slicer = tree({"main.py": other})
    [example] = slicer.typed.examples(net_of(slicer), {})
    assert example.init_keywords == (("backbone", BODY), ("head", HEAD)), "one that lacks a width is no construction"


def test_what_registries_build_is_a_part_of_the_slice():
    slicer = tree({"configs/net.py": WRITTEN})
    definition = net_of(slicer)
    example = slicer.typed.examples(definition, {})[0]
    built = slicer.typed.of_example(example)
    assert [item.names for item in built] == [("Body",), ("Head",)]
    text, _ = write_slice(slicer, definition, built=built)
    assert "nn.Softplus" in text, "a statement registers what a default names"
    shown = {"init": (), "init_keywords": example.init_keywords, "inputs": (), "input_keywords": ()}
    found = search_arguments(text, "Net", [{**shown, "evidence": example.evidence}], "")
    assert found["init"][:2] == [BODY, HEAD], found
    assert "class Head" not in write_slice(slicer, definition)[0]


def test_a_class_whose_code_names_nothing_registered_is_left_alone():
    slicer = tree({})
    [body, *_] = slicer.module_classes(slicer.index.parse("parts.py"))
    assert slicer.names_built(net_of(slicer))
    assert not slicer.names_built(body)
    assert slicer.typed.examples(body, {}) == []


def test_dictionaries_with_attributes_are_at_hand_without_their_package():
    files = {"conf.py": "from addict import Dict\n\nclass Conf(Dict):\n    pass\n"}
    net = NET.replace("PARTS, build", "PARTS").replace("build(backbone), build(head), build(act)", "Conf(a=[{'b': 3}])")
    slicer = tree(
        {**files, "net.py": "from conf import Conf\n" + net.replace("self.backbone, self.head, self.act", "c")}
    )
    space: dict[str, object] = {}
    exec(write_slice(slicer, net_of(slicer))[0], space)
    made = space["Conf"](a=[{"b": 3}])  # type: ignore[operator]
    made.c.d = 4
    assert (made.a[0].b, made["c"], made.copy().to_dict()) == (3, {"d": 4}, {"a": [{"b": 3}], "c": {"d": 4}})
