"""Configurations that a module of their own fills, statement by statement."""

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
