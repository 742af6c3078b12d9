"""An exception in any step of mining costs one row and never the run."""

import functools
import importlib
import inspect
import pkgutil
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import musadata.mining
from musadata.config import SourceConfig, SourceType
from musadata.errors import Outage
from musadata.mining.miner import Miner
from musadata.records import Draft, KernelDraft, Reject
from musadata.sandbox import Limits, Outcome
from musadata.sources.code import CodeFiles
from musadata.sources.trees import MemoryTree
from tests.mining.kernels.kernel_repository import FILES

MODULES = {
    "net/blocks.py": (
        "import torch\nfrom torch import nn\nfrom .helpers import double\n\n\n"
        "class First(nn.Module):\n    def forward(self, x):\n        return double(x)\n\n\n"
        "class Second(First):\n    def forward(self, x):\n        return super().forward(x) + 1\n"
    ),
    "net/helpers.py": "FACTOR = 2\n\n\ndef double(x):\n    return FACTOR * x\n",
    "net/__init__.py": "",
}


class Found:
    """A sandbox in which every search finds the same arguments."""

    def call(self, function: str, *arguments: Any, limits: Limits) -> Outcome:
        return Outcome("ok", {"definitions": arguments[0], "init": [], "inputs": ["torch.randn(2)"]})


def mine() -> list[Draft | KernelDraft | Reject]:
    tree = MemoryTree({path: text.encode() for path, text in {**MODULES, **FILES}.items()})
    source = CodeFiles("test", tree, SourceConfig(SourceType.DIRECTORY, harvest_seconds=0), seed=1, kernels=True)
    miner = Miner(source)
    return [item for unit in source.units() for item in miner.drafts(unit, Found())]


def steps() -> Iterator[tuple[Any, str, Any]]:
    """Every function and method of our own that mining may call, with the place that holds it."""
    for item in pkgutil.walk_packages(musadata.mining.__path__, "musadata.mining."):
        importlib.import_module(item.name)
    for name, module in list(sys.modules.items()):
        if name.startswith("musadata.mining") and name != "musadata.mining.miner":
            for place in (module, *(item for item in vars(module).values() if inspect.isclass(item))):
                for attribute, value in list(vars(place).items()):
                    if inspect.isfunction(value) and value.__module__.startswith("musadata.mining."):
                        yield place, attribute, value


@pytest.mark.parametrize("seed", range(4))
def test_random_exceptions_cost_rows_and_not_the_run(seed, monkeypatch):
    draw = random.Random(seed)
    failures = 0

    def failing(function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **keywords: Any) -> Any:
            nonlocal failures
            if draw.random() < 0.002:
                failures += 1
                raise draw.choice([RuntimeError, TypeError, KeyError, ZeroDivisionError])("at random")
            return function(*args, **keywords)

        return wrapped

    wrapped: dict[Any, Any] = {}
    for place, name, function in list(steps()):
        wrapped[function] = wrapped.get(function) or failing(function)
        monkeypatch.setattr(place, name, wrapped[function])
    found = [item for _ in range(3) for item in mine()]
    rejects = [item for item in found if isinstance(item, Reject) and item.reason == "internal_error"]
    assert failures
    assert rejects
    assert all("at random" in item.detail and ".py:" in item.detail for item in rejects)
    assert len(found) > len(rejects)


def test_the_reject_names_the_step_the_class_and_the_place(monkeypatch):
    def broken(*args: Any) -> None:
        raise KeyError("odd")

    monkeypatch.setattr("musadata.mining.slicing.drafting.write_definitions", broken)
    rejects = [item for item in mine() if isinstance(item, Reject) and item.step == "draft"]
    assert [item.origin for item in rejects][:2] == ["test/net/blocks.py:6-8", "test/net/blocks.py:11-13"]
    assert rejects[0].detail.startswith("KeyError: 'odd' (test_failures.py:")


def test_an_outage_is_no_reject(monkeypatch):
    def broken(*args: Any) -> None:
        raise Outage("no space left")

    monkeypatch.setattr("musadata.mining.slicing.drafting.write_definitions", broken)
    with pytest.raises(Outage):
        mine()
