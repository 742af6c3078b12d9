"""Modules that take several tensors in one argument get a subclass that takes each by itself."""

from typing import Any

import pytest
import torch

from musadata.config import SourceConfig, SourceType
from musadata.mining.miner import Miner
from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import write_slice
from musadata.mining.slicing.evidence import Example
from musadata.mining.slicing.fixed_arguments import fix_arguments
from musadata.mining.slicing.packed_inputs import takes_list, unpack_inputs
from musadata.sandbox import Limits, Outcome
from musadata.sources.code import CodeFiles
from musadata.sources.trees import MemoryTree
from tests.mining.slicing.test_slicing import run

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def other(self, x):
        high, low = x
        return high - low

    def forward(self, {parameters}):
        {body}
"""


def unpacked(parameters: str, body: str) -> str | None:
    text = NET.format(parameters=parameters, body=body)
    slicer = Slicer(PackageIndex(MemoryTree({"pkg/net.py": text.encode()})))
    module = slicer.index.parse("pkg/net.py")
    made = unpack_inputs(slicer.index, module, slicer.module_classes(module)[0])
    return None if made is None else write_slice(slicer, made)[0]


@pytest.mark.parametrize(
    ("parameters", "body", "signature"),
    [
        ("x, scale", "a, b = x; return (a - b) * scale", "(self, a, b, scale)"),
        ("scale, x", "return (x[0] - x[1]) * scale", "(self, scale, x1, x2)"),
    ],
)
def test_each_item_is_an_argument(parameters, body, signature):
    text = unpacked(parameters, body)
    assert f"def forward{signature}" in text
    values = [torch.tensor(2.0)] * 3 if "scale, x" in parameters else [torch.tensor(value) for value in (5.0, 3.0, 2.0)]
    assert float(run(text)["Model"]()(*values)) == (0.0 if "scale, x" in parameters else 4.0)


def test_a_class_that_needs_a_configuration_may_take_its_inputs_packed():
    files = {
        "pkg/net.py": (
            "from torch import nn\n\nclass NetConfig:\n    def __init__(self, width=8):\n        self.width = width\n\n"
            "class Net(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
            "        if not isinstance(config, NetConfig):\n            raise ValueError('no NetConfig')\n"
            "        self.fc = nn.Linear(config.width, 2)\n\n"
            "    def forward(self, batch):\n"
            "        return self.fc(batch[0] - batch[1])\n"
        )
    }
    slicer = Slicer(PackageIndex(MemoryTree({path: text.encode() for path, text in files.items()})))
    module = slicer.index.parse("pkg/net.py")
    net = slicer.module_classes(module)[0]
    made, _ = fix_arguments(slicer.index, module, net, Example(("NetConfig(4)",)), 0)
    packed = unpack_inputs(slicer.index, slicer.module_of(made), made)
    model, x = run(write_slice(slicer, packed)[0])["Model"](), torch.ones(3, 4)
    assert torch.equal(model(x, x), model.fc(x - x))


def test_a_name_that_is_bound_anew_is_packed_until_then():
    text = unpacked("x", "x, b = x[0], x[1]; return x.relu() - b")
    assert float(run(text)["Model"]()(torch.tensor(3.0), torch.tensor(1.0))) == 2.0
    assert unpacked("x", "x[0] = 1; return x.relu()") is None


def test_a_list_of_any_length_gets_three_items():
    assert float(run(unpacked("maps", "return sum(m.mean() for m in maps)"))["Model"]()(*torch.eye(3))) == 1.0


def test_what_is_read_of_an_object_is_an_argument():
    text = unpacked("graph, scale", "return (graph.nodes - graph.edges) * scale")
    assert "def forward(self, nodes, edges, scale)" in text
    assert float(run(text)["Model"]()(*map(torch.tensor, (5.0, 3.0, 2.0)))) == 4.0
    assert unpacked("graph", "return graph.nodes + graph") is None
    assert unpacked("graph", "return graph.nodes() + graph.nodes") is None


def test_the_forward_of_a_base_class_tells_what_is_packed():
    base = "class Base(nn.Module):\n    def forward(self, x):\n        return x[0] - x[1]\n\n"
    text = f"from torch import nn\n\n{base}class Net(Base):\n    pass\n"
    slicer = Slicer(PackageIndex(MemoryTree({"net.py": text.encode()})))
    module = slicer.index.parse("net.py")
    made = unpack_inputs(slicer.index, module, slicer.module_classes(module)[1])
    assert "def forward(self, x1, x2)" in write_slice(slicer, made)[0]


@pytest.mark.parametrize(
    "body",
    [
        "return x + x[0]",
        "return x.sum()",
        "return x.T",
        "return x.shape + [x.ndim]",
        "return x[:, 0]",
        "return F.relu(x)",
        "return x",
    ],
)
def test_a_tensor_stays_a_tensor(body):
    assert unpacked("x", body) is None


def test_a_file_may_have_a_name_that_no_import_takes():
    text = NET.format(parameters="x, scale", body="a, b = x; return (a - b) * scale")
    text += "\nclass Outer(nn.Module):\n    def __init__(self, kind, width):\n        super().__init__()\n"
    text += "        self.part = kind()\n        self.width = width\n\n    def forward(self, x):\n"
    text += "        return self.part([x, x], self.width)\n"
    slicer = Slicer(PackageIndex(MemoryTree({"pkg/my-net.py": text.encode()})))
    module = slicer.index.parse("pkg/my-net.py")
    net, outer = slicer.module_classes(module)
    assert "def forward(self, a, b, scale)" in write_slice(slicer, unpack_inputs(slicer.index, module, net))[0]
    made, rest = fix_arguments(slicer.index, module, outer, Example(("Net", "3")), 0)
    assert rest.init == ("3",)
    space = run(write_slice(slicer, made)[0])
    assert torch.equal(space["Model"](3)(torch.ones(2)), torch.zeros(2))


@pytest.mark.parametrize(
    ("parameters", "body", "expected"),
    [
        ("feature_list", "return [x.relu() for x in feature_list]", True),
        ("levels: 'List[Tensor]'", "return [x.relu() for x in levels]", True),
        ("levels, scale", "return [x * s for x, s in zip(levels, scale)]", False),
        ("x_list", "return x_list.relu()", False),
        ("rows", "return [x.relu() for x in rows]", False),
    ],
)
def test_what_is_named_or_used_as_a_list_is_one(parameters, body, expected):
    """The rows of a batch, which some code takes one by one, are none."""
    slicer = Slicer(PackageIndex(MemoryTree({"net.py": NET.format(parameters=parameters, body=body).encode()})))
    definition = slicer.module_classes(slicer.index.parse("net.py"))[0]
    assert takes_list(slicer.index, definition) == expected


class _Refusing:
    """A sandbox whose search finds nothing."""

    def call(self, target: str, source: str, *given: Any, limits: Limits) -> Outcome:
        if "super().forward(" in source:
            return Outcome("ok", {"reason": "shapes_disagree", "detail": "of the items"})
        return Outcome(
            "ok", {"reason": "needs_structured_input", "detail": "ValueError: values to unpack (expected 2)"}
        )


def test_a_loss_tells_what_is_lacking_where_each_item_is_given_by_itself():
    text = NET.format(parameters="x", body="a, b = x; return a @ b")
    source = CodeFiles("test", MemoryTree({"net.py": text.encode()}), SourceConfig(SourceType.DIRECTORY), seed=1)
    [reject] = Miner(source).drafts("net.py", _Refusing())
    assert (reject.reason, reject.detail) == ("shapes_disagree", "of the items")


def test_of_what_only_the_first_item_is_read_is_a_list():
    text = unpacked("x, c=()", "return x[0] * 2")
    assert run(text)["Model"]()(torch.ones(3)).tolist() == [2, 2, 2]
