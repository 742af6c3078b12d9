"""Cutting classes out of small packages."""

import pytest
import torch

from musadata.mining.slicing.class_slicing import Slicer, Unsliceable
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import write_reference, write_slice
from musadata.mining.slicing.imports import forbidden_imports
from musadata.mining.slicing.rewriting import write_definitions
from musadata.sources.trees import MemoryTree


def cut(files: dict[str, str], path: str, name: str) -> str:
    """The definitions of one class of a package given as texts."""
    index = PackageIndex(MemoryTree({path: text.encode() for path, text in files.items()}))
    slicer = Slicer(index)
    [definition] = [item for item in slicer.module_classes(index.parse(path)) if item.names[0] == name]
    sliced = slicer.slice(definition)
    return write_definitions(sliced, {p.definition.module: slicer.module_of(p.definition) for p in sliced.pieces})


def run(text: str) -> dict:
    space: dict = {"__name__": "reference"}
    exec(compile(text, "reference", "exec"), space)
    return space


BLOCK = """
import torch.nn as nn
from .helpers import scale, WIDTH
from .layers.base import Base as Parent

class Block(Parent):
    \"\"\"Scales what its parent makes. And more text.\"\"\"
    __constants__ = ["width"]
    width: int

    def __init__(self, width: "int" = WIDTH) -> None:
        super().__init__(width)

    def forward(self, x):
        return scale(super().forward(x))

    def extra_repr(self):
        return unknown_name
"""
PACKAGE = {
    "pkg/__init__.py": "from .block import Block\n",
    "pkg/block.py": BLOCK,
    "pkg/helpers.py": "import math\nWIDTH = 2 * 4\nUNUSED = 1\ndef scale(x):\n    return x * math.sqrt(WIDTH)\n",
    "pkg/layers/__init__.py": "",
    "pkg/layers/base.py": (
        "from torch import nn\n\nclass Base(nn.Module):\n    def __init__(self, width):\n"
        "        super().__init__()\n"
        "        self.linear = nn.Linear(width, width)\n\n    def forward(self, x):\n"
        "        return self.linear(x)\n"
    ),
}


def test_a_class_comes_with_everything_it_needs_from_its_package_and_nothing_else():
    text = cut(PACKAGE, "pkg/block.py", "Block")
    assert "class Base(nn.Module)" in text
    assert "class Model(Base)" in text
    assert "def scale(x)" in text
    assert "WIDTH = 2 * 4" in text
    assert "UNUSED" not in text
    assert "from ." not in text
    assert run(text)["Model"]().linear.in_features == 8


def test_registries_docs_and_dead_methods_are_left_out():
    text = cut(PACKAGE, "pkg/block.py", "Block")
    assert '"""Scales what its parent makes."""' in text
    assert "__constants__" not in text
    assert "extra_repr" not in text
    assert "unknown_name" not in text


def test_modules_reached_through_a_package_alias_are_opened():
    files = {
        **PACKAGE,
        "pkg/user.py": (
            "import torch\nfrom torch import nn\nfrom . import helpers as h\n\n"
            "class User(nn.Module):\n    def forward(self, x):\n        return h.scale(torch.relu(x))\n"
        ),
    }
    text = cut(files, "pkg/user.py", "User")
    assert "return scale(torch.relu(x))" in text
    assert "h." not in text.replace("torch.", "").replace("math.", "")


def test_two_things_of_one_name_from_two_files_are_told_apart():
    files = {
        "a.py": "def act(x):\n    return x + 1\n",
        "b.py": "def act(x):\n    return x * 10\n",
        "m.py": (
            "from torch import nn\nimport a\nfrom b import act\n\n"
            "class M(nn.Module):\n    def forward(self, x):\n        return a.act(act(x))\n"
        ),
    }
    model = run(cut(files, "m.py", "M"))["Model"]()
    assert model(1) == 11


def test_a_local_variable_keeps_its_name_when_a_global_of_that_name_is_renamed():
    files = {
        "a.py": "def act(x):\n    return x + 1\n",
        "b.py": "def act(x):\n    return x * 10\n\ndef twice(x):\n    act = x\n    return act + act\n",
        "m.py": (
            "from torch import nn\nimport a\nfrom b import act, twice\n\n"
            "class M(nn.Module):\n    def forward(self, x):\n        return a.act(act(twice(x)))\n"
        ),
    }
    assert run(cut(files, "m.py", "M"))["Model"]()(1) == 21


def test_star_imports_and_reexports_are_followed():
    files = {
        "p/__init__.py": "from .x import *\n",
        "p/x.py": "from .y import deep as shallow\n__all__ = ['shallow']\n",
        "p/y.py": "def deep(x):\n    return -x\n",
        "m.py": (
            "from torch import nn\nfrom p import *\n\nclass M(nn.Module):\n"
            "    def forward(self, x):\n        return shallow(x)\n"
        ),
    }
    assert run(cut(files, "m.py", "M"))["Model"]()(3) == -3


def test_cyclic_imports_end():
    files = {
        "p/__init__.py": "",
        "p/a.py": "from .b import *\nfrom .b import thing\n",
        "p/b.py": "from .a import *\nfrom .a import thing\n",
        "p/m.py": (
            "from torch import nn\nfrom .a import thing\n\nclass M(nn.Module):\n"
            "    def forward(self, x):\n        return thing(x)\n"
        ),
    }
    assert forbidden_imports(cut(files, "p/m.py", "M")) == ("p", "p.a")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("class M(nn.Module):\n    def forward(self, x, f=nowhere):\n        return f(x)\n", "unresolved_name"),
        (
            "import other\nclass M(nn.Module):\n    def forward(self, x, known=vars(other)):\n        return known\n",
            "module_as_value",
        ),
    ],
)
def test_what_cannot_stand_alone_is_refused_with_a_reason(code, reason):
    with pytest.raises(Unsliceable) as caught:
        cut({"m.py": "from torch import nn\n" + code, "other.py": "x = 1\n"}, "m.py", "M")
    assert caught.value.reason == reason


def test_a_base_class_of_an_absent_package_goes_if_another_one_makes_the_class_run():
    code = (
        "from torch import nn\nfrom hub import Mixin\nimport trainer\n\n"
        "class Named(Mixin, name='m'):\n    kind = 3\n\n"
        "class M(nn.Module, Mixin, Named, library='x'):\n    def forward(self, x):\n        return x * self.kind\n"
    )
    text = cut({"m.py": code}, "m.py", "M")
    assert "class Named:" in text
    assert "class Model(nn.Module, Named):" in text
    assert "Mixin" not in text


def test_optional_imports_take_the_branch_that_works_without_them():
    code = (
        "from torch import nn\ntry:\n    import apex\n    FUSED = True\nexcept ImportError:\n    FUSED = False\n\n"
        "class M(nn.Module):\n    def forward(self, x):\n        return x if FUSED else -x\n"
    )
    text = cut({"m.py": code}, "m.py", "M")
    assert "apex" not in text
    assert run(text)["Model"]()(2) == -2


def test_scripting_branches_and_annotations_go():
    code = (
        "from typing import Final\nimport torch\nfrom torch import nn, Tensor\n\n"
        "class M(nn.Module):\n    flag: Final[bool]\n\n"
        "    def forward(self, x: Tensor, y: 'Weird[Thing]' = None) -> 'Weird[Thing]':\n"
        "        if torch.jit.is_scripting():\n            return nothing(x)\n"
        "        z: Tensor = x + 1  # type: ignore\n        return z\n"
    ).replace("nothing(x)", "x")
    text = cut({"m.py": code}, "m.py", "M")
    assert "is_scripting" not in text
    assert "Weird" not in text
    assert "type: ignore" not in text
    assert "def forward(self, x: torch.Tensor, y=None):" in text
    assert "z = x + 1" in text


def test_base_stubs_that_the_class_replaces_are_dropped():
    code = (
        "from torch import nn\n\nclass Base(nn.Module):\n    def check(self, x):\n"
        "        raise NotImplementedError\n\n"
        "    def forward(self, x):\n        return self.check(x)\n\nclass M(Base):\n"
        "    def check(self, x):\n        return x\n"
    )
    text = cut({"m.py": code}, "m.py", "M")
    assert "NotImplementedError" not in text
    assert run(text)["Model"]()(5) == 5


def test_a_base_that_is_also_used_by_itself_keeps_its_members():
    code = (
        "from torch import nn\n\nclass Base(nn.Module):\n    def check(self, x):\n        return x * 2\n\n"
        "    def forward(self, x):\n        return self.check(x)\n\nclass M(Base):\n"
        "    def check(self, x):\n        return Base()(x) + 1\n"
    )
    assert run(cut({"m.py": code}, "m.py", "M"))["Model"]()(5) == 11


def test_definitions_stand_in_an_order_that_python_can_execute():
    code = (
        "from torch import nn\n\nclass M(nn.Module):\n"
        "    def __init__(self, n=LATE if False else None):\n        super().__init__()\n\n"
        "    def forward(self, x):\n        return table[0](x)\n"
    ).replace("LATE if False else None", "None")
    files = {
        "m.py": "from z import table\n" + code,
        "z.py": (
            "def helper(x):\n    return inner(x)\n\ndef inner(x):\n    return x + 7\n\n"
            "def make():\n    return [helper] if inner(0) == 7 else []\n\ntable = make()\n"
        ),
    }
    assert run(cut(files, "m.py", "M"))["Model"]()(1) == 8


@pytest.mark.parametrize(
    "branches, lines",
    [
        ("if x.dim() == 2:\n{a}\nelif torch.jit.is_scripting():\n{b}", ["if", "A"]),
        ("if x.dim() == 2:\n{a}\nelif torch.jit.is_scripting():\n{b}\nelse:\n{c}", ["if", "A", "else", "C"]),
        ("if x.dim() == 2:\n{a}\nelif not torch.jit.is_scripting():\n{b}\nelse:\n{c}", ["if", "A", "else", "B"]),
        ("if torch.jit.is_scripting():\n{a}\nelif x.dim() == 2:\n{b}\nelse:\n{c}", ["if", "B", "else", "C"]),
        (
            "if x.dim() == 1:\n{a}\nelif torch.jit.is_scripting():\n{b}\nelif x.dim() == 2:\n{c}",
            ["if", "A", "elif", "C"],
        ),
    ],
)
def test_a_scripting_branch_is_decided_wherever_it_stands(branches, lines):
    body = branches.format(**{name: f"    x = x + {name.upper()}" for name in "abc"})
    source = "import torch\nfrom torch import nn\nA, B, C = 1, 2, 3\n\nclass M(nn.Module):\n    def forward(self, x):\n"
    text = cut(
        {"m.py": source + "".join(f"        {line}\n" for line in [*body.splitlines(), "return x"])}, "m.py", "M"
    )
    forward = text.partition("def forward")[2]
    words = [word.strip(":") for word in forward.split() if word.strip(":") in ("if", "elif", "else", "A", "B", "C")]
    assert words == lines
    run(text)["Model"]()(run("import torch")["torch"].zeros(2, 2))


FACTORY = """
from torch import nn

class Factory:
    def __init__(self):
        self.makers = {}

    def register(self, name):
        def keep(maker):
            self.makers[name] = maker
            return maker
        return keep

    def add(self, name, maker):
        self.makers[name] = maker

    def __getitem__(self, name):
        return self.makers[name]

Act = Factory()
Unused = Factory()
TABLE = {}

@Act.register("relu")
def make_relu():
    return nn.ReLU

@Unused.register("never")
def make_never():
    return nn.Sigmoid

Act.add("tanh", lambda: SLOPE and nn.Tanh)
SLOPE = 1

def enter(name):
    def keep(kind):
        TABLE[name] = kind
        return kind
    return keep

@enter("double")
class Double(nn.Module):
    def forward(self, x):
        return 2 * x

def look_up(name):
    return TABLE[name]

class Scale:
    factor = 1

Scale.factor = 3
Scale.__doc__ = nowhere
"""


@pytest.mark.parametrize(
    "made, has, lacks",
    [
        ('Act["relu"]()()', "make_relu", "make_never"),
        ('Act["tanh"]()()', "Act.add", "Unused"),
        ('look_up("double")()', '@enter("double")', "Act"),
        ("(lambda x: Scale.factor * x)", "Scale.factor = 3", "nowhere"),
    ],
)
def test_statements_that_change_a_kept_name_are_kept(made, has, lacks):
    model = (
        "from torch import nn\nfrom .factory import Act, Scale, look_up\n\nclass M(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        self.f = {made}\n\n"
        "    def forward(self, x):\n        return self.f(x)\n"
    )
    text = cut({"pkg/factory.py": FACTORY, "pkg/model.py": model, "pkg/__init__.py": ""}, "pkg/model.py", "M")
    assert has in text
    assert lacks not in text
    assert float(run(text)["Model"]()(run("import torch")["torch"].ones(1))) > 0


def test_a_module_among_the_arguments_is_given_by_a_subclass():
    definitions = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self, block):\n"
        "        super(Model, self).__init__()\n        self.block = block\n\n"
        "    def forward(self, x):\n        return self.block(x) + 1\n"
    )
    text = write_reference(definitions, ["nn.Linear(8, 8)"], ["torch.randn(2, 8)"], "Block")
    space = run(text)
    assert space["get_init_inputs"]() == []
    assert space["Model"]()(*space["get_inputs"]()).shape == (2, 8)
    assert "class Block(torch.nn.Module):" in text
    assert "super(Block, self)" in text
    assert "from torch import nn" in text


def test_calls_that_report_use_are_dropped():
    code = (
        "from torch import nn\nfrom vision import _log_api_usage_once\n\nclass M(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        _log_api_usage_once(self)\n\n"
        "    def forward(self, x):\n        return -x\n"
    )
    text = cut({"m.py": code}, "m.py", "M")
    assert "_log_api_usage_once" not in text
    assert run(text)["Model"]()(2) == -2


def test_an_import_that_is_assigned_to_its_own_name_is_still_that_import():
    code = (
        "from torch import nn\nfrom math import tau\ntau = tau\n\nclass M(nn.Module):\n"
        "    def forward(self, x):\n        return x * tau\n"
    )
    text = cut({"m.py": code}, "m.py", "M")
    assert "from math import tau" in text
    assert run(text)["Model"]()(1) > 6


BY_VERSION = """
import torch
from torch import nn

NEW = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) > (1, 7)
if NEW:
    import torch.fft
if not NEW:
    import absent_package
else:
    scale = 2.0

class M(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x).real * scale
"""


def test_imports_that_depend_on_a_version_do_not_hide_the_package():
    assert run(cut({"m.py": BY_VERSION}, "m.py", "M"))["Model"]()(torch.ones(2, 8)).shape == (2, 5)


LIGHTNING = """
import pytorch_lightning as pl
from torch import nn
from mmcv.runner import BaseModule

class Head(BaseModule):
    def __init__(self, width, out, init_cfg):
        super(Head, self).__init__(init_cfg)
        self.fc = nn.Linear(width, out)

    def forward(self, x):
        return self.fc(x)

class Base(pl.LightningModule):
    def training_step(self, batch):
        return self(batch)

class M(Base):
    def __init__(self, width):
        super().__init__()
        self.save_hyperparameters()
        self.fc = Head(8, width, init_cfg=None)

    def forward(self, x):
        return self.fc(x)
"""


def test_a_scripted_module_becomes_a_plain_one():
    text = "from torch import jit\n\nclass M(jit.ScriptModule):\n    @jit.script_method\n"
    cut_out = cut({"m.py": f"{text}    def forward(self, x):\n        return 2 * x\n"}, "m.py", "M")
    assert "jit" not in cut_out
    assert run(cut_out)["Model"]()(torch.ones(2)).tolist() == [2, 2]


def test_a_lightning_module_becomes_a_plain_one():
    text = cut({"m.py": LIGHTNING}, "m.py", "M")
    assert "save_hyperparameters" not in text
    assert run(text)["Model"](4)(torch.ones(2, 8)).shape == (2, 4)


NORM = """
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

class M(_BatchNorm):
    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError("too few dimensions")
"""


def test_a_method_that_only_a_layer_of_pytorch_calls_is_kept():
    assert run(cut({"m.py": NORM}, "m.py", "M"))["Model"](8)(torch.ones(2, 8, 3)).shape == (2, 8, 3)


@pytest.mark.parametrize("place", ["torch.nn.parallel", "torch.nn"])
def test_a_wrapper_that_spreads_a_module_over_devices_is_no_module_to_mine(place):
    code = (
        f"from torch import nn\nfrom {place} import DataParallel\n\nclass Balanced(DataParallel):\n"
        "    def forward(self, x):\n        return self.module(x)\n\n"
        "class M(nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    index = PackageIndex(MemoryTree({"m.py": code.encode()}))
    assert [item.names for item in Slicer(index).module_classes(index.parse("m.py"))] == [("M",)]


def test_registrations_in_a_loop_of_a_module_are_kept():
    files = {
        "table.py": "LAYERS = {}\n\ndef register(layer):\n    LAYERS[layer.__name__] = layer\n",
        "net.py": (
            "from torch import nn\nfrom table import LAYERS, register\n\n"
            "for layer in (nn.ReLU, nn.Tanh):\n    register(layer)\n\n"
            "for name, layer in (('gelu', nn.GELU),):\n    LAYERS[name] = layer\n\n"
            "class Net(nn.Module):\n    def __init__(self, name='gelu'):\n        super().__init__()\n"
            "        self.layer = LAYERS[name]()\n\n    def forward(self, x):\n        return self.layer(x)\n"
        ),
    }
    assert type(run(cut(files, "net.py", "Net"))["Model"]().layer).__name__ == "GELU"


def test_imports_inside_functions_keep_their_modules():
    files = {
        "net.py": (
            "import torch\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
            "        from torch.nn.modules.activation import ReLU\n        return ReLU()(x)\n"
        )
    }
    text = cut(files, "net.py", "Net")
    assert run(text)["Model"]()(torch.tensor([-1.0])).item() == 0


def test_a_reference_runs_where_its_caller_puts_it():
    code = """
import torch
from torch import nn

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

class Net(nn.Module):
    def __init__(self, device="cuda"):
        super().__init__()
        self.device = device
        self.bias = torch.zeros(3).cuda()
        self.scale = (torch.ones(3) + 1).cuda(non_blocking=True)
        self.layer = nn.Linear(3, 3).to("cuda")

    def forward(self, x):
        mask = torch.cuda.FloatTensor(3).fill_(1).to(device=torch.device("cuda"))
        mask = mask.to(device).to("cuda", torch.float64).to(self.device)
        kind = "other" if self.device == "cuda" or str(x.device).startswith("cuda") else "same"
        with torch.autocast("cuda", enabled=False), torch.autocast(device_type="cuda", enabled=False):
            mask = mask + (lambda: torch.zeros)()(3).cuda()
        return self.layer(x) * self.scale + self.bias + mask + len(kind)
"""
    text = cut({"net.py": code}, "net.py", "Net")
    assert text.count("cuda") == 4 and 'self.device == "cuda"' in text
    assert run(text)["Model"]()(torch.zeros(2, 3)).shape == (2, 3)


def test_custom_kernels_of_a_module_called_cuda_are_no_placement():
    code = "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
    code += "        with torch.cuda.amp.autocast(enabled=False):\n            return x + 1\n"
    assert "torch.cuda.amp.autocast(enabled=False)" in cut({"net.py": code}, "net.py", "Net")


def test_a_reference_draws_its_own_weights():
    code = """
from torch import nn
from torch.hub import load_state_dict_from_url

class Net(nn.Module):
    def __init__(self, pretrained=True):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.load_state_dict(self.first.state_dict())
        if pretrained:
            self.first.load_state_dict(load_state_dict_from_url("https://example.org/x.pth"))
            state = load_state_dict_from_url("https://example.org/x.pth")
            self.load_state_dict({name: value for name, value in state.items()}, strict=False)

    def forward(self, x):
        return self.second(self.first(x))
"""
    text = cut({"net.py": code}, "net.py", "Net")
    assert "example.org" not in text and "self.second.load_state_dict(self.first.state_dict())" in text
    model = run(text)["Model"]()
    assert model.first.weight.equal(model.second.weight)


def test_a_folder_of_folders_is_a_package():
    files = {
        "models/parts/blocks.py": "from torch import nn\n\nclass Block(nn.Linear):\n    pass\n",
        "models/nets/net.py": (
            "from torch import nn\nfrom models import parts\nfrom models.parts import blocks\n\n"
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.block = blocks.Block(3, 3)\n\n    def forward(self, x):\n        return self.block(x)\n"
        ),
    }
    assert "class Block(nn.Linear)" in cut(files, "models/nets/net.py", "Net")


def test_synchronized_batch_norm_is_pytorchs_in_one_process():
    files = {
        "sync/batchnorm.py": (
            "from torch import nn\n\nclass SynchronizedBatchNorm2d(nn.modules.batchnorm._BatchNorm):\n"
            "    def forward(self, x):\n        return unknown(x)\n"
        ),
        "net.py": (
            "from torch import nn\nfrom sync.batchnorm import SynchronizedBatchNorm2d as Norm\n\n"
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.norm = Norm(3)\n\n    def forward(self, x):\n        return self.norm(x)\n"
        ),
    }
    text = cut(files, "net.py", "Net")
    assert "Synchronized" not in text
    assert type(run(text)["Model"]().norm) is torch.nn.BatchNorm2d


def test_a_reference_prints_nothing():
    code = """
from torch import nn
from rich.pretty import show

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        print("Net", show(self))
        for name, _ in self.named_parameters():
            print(name)

    def forward(self, x):
        return x + 1
"""
    text = cut({"net.py": code}, "net.py", "Net")
    assert "print(" not in text and "rich" not in text
    assert run(text)["Model"]()(torch.zeros(2)).sum() == 2


def test_a_module_as_value_in_code_that_may_never_run_is_named_as_unbound():
    code = (
        "from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        return self.knows(x) if isinstance(x, str) else x + 1\n\n"
        "    def knows(self, name):\n        import parts as known\n\n        return hasattr(known, name)\n"
    )
    index = PackageIndex(MemoryTree({"net.py": code.encode(), "parts.py": b"width = 1\n"}))
    slicer = Slicer(index)
    [definition] = slicer.module_classes(index.parse("net.py"))
    text, sliced = write_slice(slicer, definition, may_import_all=True)
    assert sliced.unbound == {"known": "module_as_value"} and run(text)["Model"]()(1) == 2
    with pytest.raises(Unsliceable, match="module_as_value: known"):
        write_slice(slicer, definition)


def test_a_local_variable_may_have_the_name_of_what_it_is_made_by():
    files = {
        "net/parts.py": "from torch import nn\n\ndef body(width):\n    return nn.Linear(width, 2)\n",
        "net/net.py": (
            "from torch import nn\nfrom . import parts\n\nclass Net(nn.Module):\n"
            "    def __init__(self, width):\n        super().__init__()\n        body = parts.body(width)\n"
            "        self.part = body\n\n    def forward(self, x):\n        return self.part(x)\n"
        ),
    }
    assert run(cut(files, "net/net.py", "Net"))["Model"](3).part.out_features == 2


SCRIPT = """
import argparse
import numpy as np
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=6)
args = parser.parse_args()
WIDTH = args.width

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(np.int(WIDTH), np.cumproduct([2, 2])[-1], bias=np.float(1) < np.Inf)

    def forward(self, x):
        return self.fc(x.astype(np.float32) if isinstance(x, np.ndarray) else x)
"""


def test_a_script_takes_the_defaults_of_its_command_line_and_present_names_of_numpy(monkeypatch):
    monkeypatch.setattr("sys.argv", ["pytest", "--unknown"])
    text = cut({"net.py": SCRIPT}, "net.py", "Net")
    assert "np.float32" in text
    assert tuple(run(text)["Model"]().fc.weight.shape) == (4, 6)


def test_a_star_import_takes_the_private_names_that_are_listed():
    layers = (
        "from torch import nn\n__all__ = ['_Wide']\nclass _Wide(nn.Linear):\n    pass\n"
        "class _Other(nn.Linear):\n    pass\n"
    )
    model = (
        "from torch import nn\nfrom .modules import _Wide\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.linear = _Wide(3, 4)\n\n    def forward(self, x):\n"
        "        return self.linear(x)\n"
    )
    files = {"m/model.py": model, "m/modules/__init__.py": "from .layers import *\n", "m/modules/layers.py": layers}
    text = cut(files, "m/model.py", "Model")
    assert run(text)["Model"]()(torch.ones(2, 3)).shape == (2, 4)
    unlisted = {**files, "m/model.py": model.replace("_Wide", "_Other")}
    assert forbidden_imports(cut(unlisted, "m/model.py", "Model"))


def test_what_is_written_for_two_versions_of_python_needs_no_package():
    model = (
        "import six\nfrom six.moves import range\nfrom torch import nn\n\nclass Config(dict):\n"
        "    def __setitem__(self, key, value):\n"
        "        super().__setitem__(key, int(value) if isinstance(value, six.string_types) else value)\n\n"
        "cfg = Config()\ncfg['width'] = '4'\n\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layers = nn.ModuleList([nn.Linear(4, cfg['width']) for _ in range(2)])\n\n"
        "    def forward(self, x):\n        for _, layer in six.iteritems(dict(enumerate(self.layers))):\n"
        "            x = layer(x)\n        return x\n"
    )
    text = cut({"model.py": model}, "model.py", "Model")
    assert not forbidden_imports(text)
    assert run(text)["Model"]()(torch.ones(2, 4)).shape == (2, 4)


def test_a_tensors_device_stands_for_the_number_of_its_gpu():
    code = "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
    code += "        ones = torch.ones(3).to(x.get_device())\n"
    code += "        return ones + torch.zeros(3, device=x.get_device()) + (x.get_device() < 0)\n"
    text = cut({"net.py": code}, "net.py", "Net")
    assert text.count(".get_device()") == 1
    assert run(text)["Model"]()(torch.zeros(3)).tolist() == [2, 2, 2]


def test_checks_of_types_are_left_out():
    code = "from beartype import beartype\nfrom torch import nn\n\n@beartype\nclass Net(nn.Module):\n    @beartype\n"
    code += "    def forward(self, x: Tensor):\n        return x + 1\n"
    text = cut({"net.py": code}, "net.py", "Net")
    assert "beartype" not in text
    assert run(text)["Model"]()(torch.zeros(1)).item() == 1


def test_functions_are_not_compiled_for_scripting():
    code = "import torch\nfrom torch import nn\n\ndef double(x):\n    return x * 2\n\n"
    code += "double_jit = torch.jit.script(double)\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
    code += "        return double_jit(x)\n"
    text = cut({"net.py": code}, "net.py", "Net")
    assert "torch.jit" not in text
    assert run(text)["Model"]()(torch.ones(1)).item() == 2


def test_docstrings_are_no_code_of_a_slice_that_is_too_large():
    body = "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
    lines = "        note = 1\n" * 6000
    told = f'{body}        """Doubles.\n{lines}        """\n        return x * 2\n'
    assert run(cut({"net.py": told}, "net.py", "Net"))["Model"]()(2) == 4
    with pytest.raises(Unsliceable, match="more than 5000 lines"):
        cut({"net.py": f"{body}{lines}        return x * 2\n"}, "net.py", "Net")
