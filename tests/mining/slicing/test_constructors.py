"""Arguments that a base class takes, and constructions in a file's `__main__` block and in other files."""

import pytest
import torch

from musadata.mining.arguments.facts import find_facts
from musadata.mining.arguments.guesses import guess_config
from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.constructions import find_constructions
from musadata.mining.slicing.constructors import find_constructor
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import constructor_hints, write_slice
from musadata.mining.slicing.evidence import Example
from musadata.mining.slicing.fixed_arguments import fix_arguments
from musadata.sources.trees import MemoryTree
from tests.mining.slicing.test_slicing import run

BASE = """
from torch import nn

class Unit(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x)

class Chain(nn.Module):
    def __init__(self, unit, counts, width=8):
        super().__init__()
        self.units = nn.Sequential(*[unit(width) for _ in range(sum(counts))])

    def forward(self, x):
        return self.units(x)
"""
HEAD = "import base\n\nclass Longer(base.Chain):\n"
SHOWN = '\nif __name__ == "__main__":\n    net = Longer(base.Unit, [1, 2])\n'


def tree(files: dict[str, str]) -> Slicer:
    return Slicer(PackageIndex(MemoryTree({path: text.encode() for path, text in files.items()})))


@pytest.mark.parametrize(
    "body",
    [
        "    pass\n",
        "    def __init__(self, *args):\n        super().__init__(*args)\n",
        "    def __init__(self, *args, **kwargs):\n        super(Longer, self).__init__(*args, **kwargs)\n",
    ],
)
def test_a_class_takes_what_its_base_class_takes(body):
    slicer = tree({"base.py": BASE, "net.py": HEAD + body + SHOWN})
    module = slicer.index.parse("net.py")
    [definition] = slicer.module_classes(module)
    found = find_constructor(slicer.index, definition)
    assert found.names == ("unit", "counts", "width")
    assert found.required == {"unit", "counts"}
    [(variant, example)] = find_constructions(slicer.index, module, definition).fixed
    model = run(write_slice(slicer, variant)[0])["Model"](*map(eval, example.init))
    assert len(model.units) == 3
    assert model(torch.ones(2, 8)).shape == (2, 8)


def test_a_constructor_that_hands_on_no_star_takes_its_own_arguments_alone():
    body = "    def __init__(self, counts, **unused):\n        super().__init__(base.Unit, counts)\n"
    slicer = tree({"base.py": BASE, "net.py": HEAD + body})
    [definition] = slicer.module_classes(slicer.index.parse("net.py"))
    assert find_constructor(slicer.index, definition).names == ("counts",)


def test_arguments_behind_a_star_are_not_fixed():
    slicer = tree({"base.py": BASE, "options.py": "class Options:\n    width = 8\n"})
    module = slicer.index.parse("base.py")
    definition = next(item for item in slicer.module_classes(module) if item.names[0] == "Chain")
    assert fix_arguments(slicer.index, module, definition, Example(("Unit", "*given")), 0) is None


CONFIGURED = """
from dataclasses import dataclass

from torch import nn

@dataclass
class Config:
    width: int = 768
    heads: int = 12
    kind: str = "plain"
    teacher: str | None = None
    extra: list = field(default_factory=list)

class Old:
    def __init__(self, depth, rate=0.25, **more):
        pass

class Net(nn.Module):
    def __init__(self, cfg: Config, old: "Old | None", size: int):
        super().__init__()
        if cfg.teacher:
            raise ValueError("no teacher is at hand")
        self.first = nn.Linear(cfg.width, cfg.width // cfg.heads)

    def forward(self, x):
        return self.first(x)
"""


def test_a_configuration_is_guessed_by_the_defaults_that_its_class_declares():
    slicer = Slicer(PackageIndex(MemoryTree({"net.py": CONFIGURED.encode()})))
    [net] = slicer.module_classes(slicer.index.parse("net.py"))
    declared = constructor_hints(slicer, net)["declared"]
    assert declared["cfg"] == {"width": "768", "heads": "12", "kind": "'plain'", "teacher": "None"}
    assert declared["old"] == {"rate": "0.25"}
    facts = find_facts(write_slice(slicer, net)[0], {"Model": {"declared": declared}}, "Model")
    first, second = (guess_config("cfg", facts, 0, variant=number) for number in (0, 1))
    assert first == "SimpleNamespace(teacher=None, width=96, heads=12)"
    assert second.startswith("SimpleNamespace(teacher=None, width=")
    assert "96" not in second
