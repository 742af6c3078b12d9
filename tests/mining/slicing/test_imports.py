"""Imports of packages that references may not import: harmless in code that never runs."""

import sys

import pytest

from musadata.mining.arguments.absent_packages import AbsentPackage, absent_packages
from musadata.mining.search import search_and_prune
from musadata.mining.slicing.imports import forbidden_imports

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
