"""Imports of packages that references may not import: harmless in code that never runs."""

import sys

import pytest
import torch

from musadata.mining.arguments.absent_packages import AbsentPackage, absent_packages
from musadata.mining.search import search_and_prune
from musadata.mining.slicing.imports import forbidden_imports, without_imports
from tests.mining.slicing.test_slicing import cut

HEAD = (
    "import torch\nimport scipy.special as special\nfrom PIL import Image\nfrom numba import njit\n"
    "from torch import nn\n\n\n"
)
MODEL = (
    "@njit\ndef draw(x):\n    return Image.fromarray(x)\n\n\n"
    "class Model(nn.Module):\n    def __init__(self, show=False):\n"
    "        super().__init__()\n        self.show = show\n\n"
    "    def forward(self, x):\n        if {condition}:\n"
    "            return special.gamma(draw(x))\n        return x.tanh()\n"
)


def test_an_import_that_only_code_that_never_runs_needs_is_dropped():
    found = search_and_prune(HEAD + MODEL.format(condition="self.show"), "Model", [], "")
    assert "reason" not in found, found
    assert forbidden_imports(HEAD) == ("scipy", "scipy.special", "PIL", "numba")
    assert not forbidden_imports(found["definitions"])


def test_a_package_that_is_used_is_named_as_the_reason():
    found = search_and_prune(HEAD + MODEL.format(condition="True"), "Model", [], "")
    assert found["reason"] == "needs_package"
    assert found["detail"] in ("numba.njit", "scipy.special")


def test_imported_modules_are_as_before_afterwards():
    before = dict(sys.modules)
    space: dict = {}
    with absent_packages(HEAD):
        exec(HEAD, space)
    assert sys.modules == before
    with pytest.raises(AbsentPackage):
        space["Image"]()
    with pytest.raises(AbsentPackage):
        _ = space["special"].gamma


def test_registrations_that_make_no_difference_are_dropped_and_the_others_kept():
    head = (
        "import torch\nfrom torch import nn\n\nTABLE = {}\n\n\ndef enter(name):\n    def keep(kind):\n"
        "        TABLE[name] = kind\n        return kind\n    return keep\n\n\n"
        "@enter('used')\ndef used():\n    return nn.Tanh\n\n\n@enter('idle')\ndef idle():\n    return nn.ReLU\n\n\n"
        "TABLE['later'] = used\n\n\n"
    )
    model = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.f = TABLE['used']()()\n\n    def forward(self, x):\n        return self.f(x) + 1\n"
    )
    definitions = search_and_prune(head + model, "Model", [], "")["definitions"]
    assert "@enter('used')" in definitions
    assert "idle" not in definitions
    assert "later" not in definitions


def test_what_forbidden_imports_bind_can_be_none_where_nothing_uses_it():
    text = without_imports(HEAD + MODEL.format(condition="self.show"))
    assert not forbidden_imports(text)
    space: dict = {}
    exec(text.replace("@njit\n", ""), space)
    assert space["special"] is space["Image"] is None
    assert space["Model"]()(torch.zeros(2)).shape == (2,)
    assert without_imports(text) == text


def test_a_name_of_an_optional_package_is_imported_where_only_unknown_branches_use_it():
    code = (
        "import torch\nfrom torch import nn\ntry:\n    from apex import amp\n    FAST = True\nexcept ImportError:\n"
        "    FAST = False\n\n\nclass M(nn.Module):\n    def __init__(self, fast=False):\n        super().__init__()\n"
        "        self.fast = fast\n\n    def forward(self, x):\n        return amp.cast(x) if self.fast else x + 1\n"
    )
    text = cut({"m.py": code}, "m.py", "M")
    assert forbidden_imports(text) == ("apex",)
    found = search_and_prune(text, "M", [], "")
    assert not forbidden_imports(found["definitions"])


@pytest.mark.parametrize(("condition", "reason"), [("self.show", None), ("True", "unresolved_name")])
def test_a_name_that_nothing_binds_is_a_loss_only_where_it_is_reached(condition, reason):
    body = MODEL.format(condition=condition).replace("special.gamma(draw(x))", "nowhere(x)").partition("class ")[2]
    code = f"import torch\nfrom torch import nn\n\n\nclass {body}"
    text = cut({"m.py": code}, "m.py", "Model")
    found = search_and_prune(text, "Model", [], "")
    assert found.get("reason") == reason
    assert reason or "nowhere" not in found["definitions"]


def test_a_package_that_a_branch_imports_again_is_still_that_package():
    code = (
        "import torch\nfrom torch import nn\nparts = torch.__version__.split('.')\nmajor = int(parts[0])\nNEW = False\n"
        "if major > 1:\n    NEW = True\n    import torch.fft\n\n\n"
        "class M(nn.Module):\n    def forward(self, x):\n        return torch.fft.fft(x).real if NEW else x\n"
    )
    space: dict = {}
    exec(cut({"m.py": code}, "m.py", "M"), space)
    assert space["Model"]()(torch.ones(4)).tolist() == [4, 0, 0, 0]


def test_nothing_is_an_instance_of_an_absent_class():
    text = (
        "import torch\nfrom torch import nn\nfrom absent_layers import Wide\n\n\n"
        "class Model(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
        "        self.linear = nn.Linear(width, width)\n"
        "        if isinstance(self.linear, Wide):\n            self.linear = self.linear.narrow\n\n"
        "    def forward(self, x):\n        return self.linear(x)\n"
    )
    found = search_and_prune(text, "Model", [], "")
    assert "reason" not in found, found
    assert "absent" not in found["definitions"]
    assert "Wide" not in found["definitions"]


@pytest.mark.parametrize("bases", ["Base, Mixin", "Base"])
def test_an_absent_base_class_of_what_has_a_forward_is_a_plain_module(bases):
    code = (
        "import torch\nfrom torch import nn\nfrom absent import Base\n\n\nclass Mixin:\n    scale = 2\n\n\n"
        f"class M({bases}):\n    scale = 2\n\n    def __init__(self):\n        super().__init__()\n"
        "        self.apply(lambda part: part)\n\n    def forward(self, x):\n        return x * self.scale\n"
    )
    space: dict = {}
    exec(cut({"m.py": code}, "m.py", "M"), space)
    assert space["Model"]()(torch.ones(2)).tolist() == [2, 2]


def test_an_absent_type_in_an_annotation_of_alternatives_does_no_harm():
    source = "from absent import Kind\n\n\ndef f(x: int | Kind, y: Kind | None):\n    return x\n"
    space: dict = {}
    with absent_packages(source):
        exec(source, space)
    assert space["f"](1, 2) == 1
