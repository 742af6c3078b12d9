"""Configurations that a module of their own fills, statement by statement."""

import pytest

from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.constructions import configured, find_constructions
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import write_slice
from musadata.sources.trees import MemoryTree
from tests.mining.slicing.test_slicing import cut, run

CONFIG = """
import os.path as osp

class Config(dict):
    def __getattr__(self, name):
        return self[name]

    def __setattr__(self, name, value):
        self[name] = value

__C = Config()
cfg = __C
__C.ROOT = osp.dirname(osp.abspath(__file__))
__C.TEXT = Config()
__C.TEXT.WORDS = 18
__C.TEXT.WIDTH = __C.TEXT.WORDS * 2
__C.GAN = Config()
__C.GAN.WIDTH = __C.TEXT.WIDTH // 4
"""
NET = """
from torch import nn
from cfg.config import cfg

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(cfg.GAN.WIDTH, cfg.TEXT.WIDTH)

    def forward(self, x):
        return self.linear(x)
"""


def test_what_fills_a_configuration_keeps_its_order():
    text = cut({"cfg/__init__.py": "", "cfg/config.py": CONFIG, "net.py": NET}, "net.py", "Net")
    assert run(text)["Model"]().linear.weight.shape == (36, 9)
    assert "__file__" not in text


OPTIONS = """
class Bits:
    def __init__(self, width):
        self.width = width

class Needy:
    def __init__(self, path):
        self.bits = path

class NeedyOptions(Needy):
    bits = Bits(96)

class Options:
    def __init__(self, large=False):
        self.bits = Bits(12)
        if large:
            self.bits = Bits(48)
"""
TABLE = "import torch\n\nclass Layer(torch.nn.Module):\n    bits = None\n\nnet_config = {'width': 12, 'depth': 2}\n"
ATTRIBUTE = """
from torch import nn

class Inner(nn.Module):
    def __init__(self, dim, cfg=None):
        super().__init__()
        self.linear = nn.Linear(dim, cfg.bits.width)

class Outer(nn.Module):
    def __init__(self, dim, cfg=None):
        super().__init__()
        self.inner = Inner(dim, cfg=cfg)
        self.linear = self.inner.linear

    def forward(self, x):
        return self.linear(x)
"""
BY_KEY = ATTRIBUTE.replace("cfg.bits.width", "cfg['width']")


@pytest.mark.parametrize(("reading", "text"), [(ATTRIBUTE, "Options()"), (BY_KEY, "net_config")])
def test_a_configuration_of_the_tree_that_sets_all_that_is_read_is_an_argument(reading, text):
    files = {"tools/options.py": OPTIONS, "tools/table.py": TABLE, "pkg/net.py": reading}
    slicer = Slicer(PackageIndex(MemoryTree({path: item.encode() for path, item in files.items()})))
    module = slicer.index.parse("pkg/net.py")
    outer = next(item for item in slicer.module_classes(module) if item.names[0] == "Outer")
    found = slicer.configurations.arguments(module, outer)
    assert [item.text for item in found.values()] == [text]
    [(made, _)] = configured(slicer.index, module, outer, found)
    model = run(write_slice(slicer, made)[0])["Model"](5)
    assert model.linear.weight.shape == (12, 5)


def test_a_configuration_that_lacks_what_is_read_is_none():
    files = {"options.py": OPTIONS, "net.py": ATTRIBUTE.replace("cfg.bits.width", "cfg.bits.width + cfg.more")}
    slicer = Slicer(PackageIndex(MemoryTree({path: item.encode() for path, item in files.items()})))
    module = slicer.index.parse("net.py")
    assert not any(slicer.configurations.arguments(module, item) for item in slicer.module_classes(module))


def test_the_other_arguments_of_a_configured_class_are_those_of_an_example():
    shown = "\n\ndef build(cfg=None):\n    return Outer(dim=SIZES[0], cfg=cfg)\n\nSIZES = [7]\n"
    files = {"options.py": OPTIONS, "net.py": ATTRIBUTE + shown}
    slicer = Slicer(PackageIndex(MemoryTree({path: item.encode() for path, item in files.items()})))
    module = slicer.index.parse("net.py")
    outer = next(item for item in slicer.module_classes(module) if item.names[0] == "Outer")
    mined = find_constructions(slicer.index, module, outer).mined
    made = [
        item
        for item, _ in configured(slicer.index, module, outer, slicer.configurations.arguments(module, outer), mined)
    ]
    assert run(write_slice(slicer, made[0])[0])["Model"]().linear.weight.shape == (12, 7)


DECLARING = """
from torch import nn
from model.config import NetConfig

class Pretrained(nn.Module):
    config_class = NetConfig

    def __init__(self, config):
        super().__init__()
        if not isinstance(config, NetConfig):
            raise ValueError("should be an instance of class NetConfig")

class Net(Pretrained):
    def __init__(self, config):
        super().__init__(config)
        wide, count = config.hidden_size, config.num_hidden_layers
        self.layers = nn.Sequential(*[nn.Linear(wide, wide) for _ in range(count)])
        self.heads = wide // config.num_heads

    def forward(self, x):
        return self.layers(x)
"""
DECLARED = """
class BaseConfig:
    def __init__(self, **kwargs):
        self.num_labels = kwargs.pop("num_labels", 2)

class NetConfig(BaseConfig):
    def __init__(self, vocab=30522, hidden_size=768, num_hidden_layers=12, num_heads=12, rate=0.1, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size, self.num_heads = hidden_size, num_heads
        self.num_hidden_layers = num_hidden_layers
"""


def test_a_class_gets_a_small_configuration_of_the_class_that_it_declares():
    annotated = DECLARING.replace("    config_class = NetConfig\n", "").replace("Net(Pretrained", "Other(Pretrained")
    annotated = annotated.replace("(self, config):", "(self, config: NetConfig):")
    files = {"model/config.py": DECLARED, "model/net.py": DECLARING, "model/other.py": annotated}
    slicer = Slicer(PackageIndex(MemoryTree({path: item.encode() for path, item in files.items()})))
    for path in ("model/net.py", "model/other.py"):
        module = slicer.index.parse(path)
        [_, net] = [item for item in module.classes() if slicer.resolver.lineage(item).is_module]
        found = slicer.configurations.arguments(module, net)
        [text] = [item.text for item in found.values()]
        assert text == "NetConfig(vocab=1896, hidden_size=48, num_hidden_layers=2, num_heads=3)"
        [(made, _)] = configured(slicer.index, module, net, found)
        model = run(write_slice(slicer, made)[0])["Model"]()
        assert len(model.layers) == 2 and model.heads == 16


@pytest.mark.parametrize("check", ["if not isinstance(config, NetConfig):\n            raise", "assert isinstance("])
def test_a_class_gets_a_configuration_of_the_class_that_its_base_asks_for(check):
    asking = DECLARING.replace("    config_class = NetConfig\n", "")
    if check.startswith("assert"):
        asking = asking.replace("if not isinstance(config, NetConfig):", "assert isinstance(config, NetConfig)")
        asking = "\n".join(line for line in asking.splitlines() if "raise ValueError" not in line)
    assert check in asking
    files = {"model/config.py": DECLARED.replace("vocab=30522", "vocab_or_file"), "model/net.py": asking}
    slicer = Slicer(PackageIndex(MemoryTree({path: item.encode() for path, item in files.items()})))
    module = slicer.index.parse("model/net.py")
    [_, net] = [item for item in module.classes() if slicer.resolver.lineage(item).is_module]
    [found] = slicer.configurations.arguments(module, net).values()
    assert found.text == "NetConfig(vocab_or_file=96, hidden_size=48, num_hidden_layers=2, num_heads=3)"


def test_no_configuration_is_made_of_a_class_that_needs_more_than_a_vocabulary():
    files = {"model/config.py": DECLARED.replace("vocab=30522", "path"), "model/net.py": DECLARING}
    slicer = Slicer(PackageIndex(MemoryTree({path: item.encode() for path, item in files.items()})))
    module = slicer.index.parse("model/net.py")
    assert not any(slicer.configurations.arguments(module, item) for item in module.classes())
