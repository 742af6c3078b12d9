"""The meaning of names in parts of functions, and the order of definitions that refer to each other."""

import torch
from test_slicing import cut, run

from musadata.mining.slicing.renaming import rename_text

HEAD = "import torch\nfrom torch import nn\n\n"


def test_a_default_means_the_name_around_its_function():
    code = "def draw(pick=pick, text=None):\n    return pick(text)\n"
    assert rename_text(code, {"pick": "pick2"}) == code.replace("=pick", "=pick2")
    formatted = code.replace("text)", 'f"{pick}{text}{other}")')  # by libcst
    renamed = rename_text(formatted, {"pick": "pick2", "other": "other2"})
    assert renamed == formatted.replace("=pick", "=pick2").replace("other", "other2")


def test_a_parameter_may_have_the_name_of_its_default():
    code = (
        "def double(x):\n    return 2 * x\n\n\nclass Net(nn.Module):\n    def __init__(self, double=double):\n"
        "        super().__init__()\n        self.function = double\n\n"
        "    def forward(self, x):\n        return self.function(x)\n"
    )
    assert run(cut({"net.py": HEAD + code}, "net.py", "Net"))["Model"]()(3) == 6


def test_what_a_function_may_call_does_not_come_before_what_it_needs_itself():
    code = (
        "class Soft(nn.Module):\n    def forward(self, x):\n        return soft(x)\n\n\n"
        "def layer(name):\n    return LAYERS[name]\n\n\n"
        "KINDS = {'soft': Soft, 'hard': nn.ReLU}\nLAYERS = {name: kind() for name, kind in KINDS.items()}\n"
        "soft = layer('hard')\n\n\n"
        "class Net(nn.Module):\n    def forward(self, x):\n        return LAYERS['soft'](x)\n"
    )
    assert run(cut({"net.py": HEAD + code}, "net.py", "Net"))["Model"]()(torch.tensor([-1.0, 3.0])).tolist() == [0, 3]


def test_a_call_that_is_made_later_keeps_the_kind_of_device_that_it_takes():
    code = (
        "from functools import partial\nfrom torch.amp import autocast\n\n\nclass Net(nn.Module):\n"
        "    def forward(self, x):\n        exact = partial(autocast, 'cuda', enabled=False)\n"
        "        with exact():\n            return x + torch.ones(2, device='cuda')\n"
    )
    text = cut({"net.py": HEAD + code}, "net.py", "Net")
    assert "partial(autocast, 'cuda', enabled=False)" in text and text.count("cuda") == 1
    assert run(text)["Model"]()(torch.zeros(2)).tolist() == [1, 1]


def test_what_a_package_beside_the_tree_does_not_bind_is_imported_by_its_name():
    files = {
        "site-packages/lib/__init__.py": "",
        "site-packages/lib/lazy.py": "width = 3\n",
        "site-packages/lib/parts.py": "from .lazy import made\n\ndef part(x):\n    return made(x)\n",
        "net.py": (
            "from torch import nn\nfrom lib.parts import part\n\nclass Net(nn.Module):\n"
            "    def forward(self, x):\n        return part(x)\n"
        ),
    }
    assert "from lib.lazy import made\n" in cut(files, "net.py", "Net")
