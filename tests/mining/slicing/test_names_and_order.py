"""The meaning of names in parts of functions, and the order of definitions that refer to each other."""

import pytest
import torch
from test_slicing import cut, run

from musadata.mining.reading.parsing import parse_module
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.imports import forbidden_imports
from musadata.mining.slicing.renaming import rename_text
from musadata.sources.trees import MemoryTree

HEAD = "import torch\nfrom torch import nn\n\n"


def test_a_default_means_the_name_around_its_function():
    code = "def draw(pick=pick, text=None):\n    return pick(text)\n"
    assert rename_text(code, {"pick": "pick2"}) == code.replace("=pick", "=pick2")
    formatted = code.replace("text)", 'f"{pick}{text}{other}")')
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


def test_the_error_of_an_import_that_failed_has_a_name():
    text = "from torch import nn\ntry:\n    import nowhere\nexcept (ImportError, OSError) as e:\n    WHY = e\n"
    text += "    nowhere = None\n\nclass Net(nn.Module):\n    def forward(self, x):\n        assert nowhere is None\n"
    text += "        if nowhere is not None:\n            return x, WHY\n        return x + (WHY is not None)\n"
    written = cut({"net.py": text}, "net.py", "Net")
    assert run(written)["Model"]()(2) == 3


def test_a_module_that_is_in_no_file_is_known_however_many_files_were_read():
    index = PackageIndex(MemoryTree({f"m{number}.py": b"#" * 1_000_000 for number in range(9)}))
    index.add(parse_module("made", "made.py", "X = 1\n"))
    for number in range(9):
        index.module(f"m{number}")
    assert index.member("made", "X") is not None


class CountingTree(MemoryTree):
    reads = 0

    def read(self, path):
        self.reads += 1
        return super().read(path)


def test_files_are_parsed_once_however_many_were_before_if_they_are_small_together():
    small = {f"small{number}.py": b"X = 1\n" for number in range(20)}
    tree = CountingTree({f"big{number}.py": b"#" * 1_000_000 for number in range(9)} | small)
    index = PackageIndex(tree)
    for number in range(9):
        index.module(f"big{number}")
    for _ in range(2):
        for number in range(20):
            assert index.module(f"small{number}") is index.parse(f"small{number}.py")
    assert tree.reads == 9 + 20


USER = "from torch import nn\nfrom {place} import scaled\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
USER += "        return scaled(x)\n"
SCALED = b"def scaled(x):\n    return x * 3\n"


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("helpers", "code/tools/helpers.py"),  # in a folder that a script adds to its path
        ("tools", "code/tools/tools.py"),  # beside a package of that name
        ("code.net.parts", "code/tools/helpers.py"),  # where it is no more
    ],
)
def test_names_are_found_where_no_import_leads(place, found):
    files = {"code/net/net.py": USER.format(place=place), found: SCALED.decode(), "code/tools/__init__.py": ""}
    assert run(cut(files, "code/net/net.py", "Net"))["Model"]()(2) == 6


def test_of_several_definitions_of_a_name_that_has_moved_none_is_taken():
    files = {"pkg/net.py": USER.format(place="pkg.parts"), "pkg/a.py": SCALED.decode(), "pkg/b.py": SCALED.decode()}
    assert forbidden_imports(cut(files, "pkg/net.py", "Net"))


def test_a_class_inside_of_a_class_binds_its_own_names():
    code = (
        "scale = 2\nallowed = []\n\n\ndef size():\n    return 4\n\n\nclass Net(nn.Module):\n    class Config:\n"
        "        allowed = True\n        scale = scale\n        width = size() * scale\n\n"
        "        def size():\n            return size() + 1\n\n"
        "    def forward(self, x):\n        return x * self.Config.width + self.Config.size()\n"
    )
    text = cut({"net.py": HEAD + code}, "net.py", "Net")
    assert "allowed = []" not in text
    assert run(text)["Model"]()(1) == 13
