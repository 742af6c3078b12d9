"""Examples of a class in main blocks and tests, and what stands in for packages that references may not import."""

import pytest
import torch

from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.constructions import Constructions, find_constructions
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import write_slice
from musadata.sources.trees import MemoryTree
from tests.mining.slicing.test_slicing import cut, run

CLASS = "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n\n"


def examples(files: dict[str, str]):
    slicer = Slicer(PackageIndex(MemoryTree({path: text.encode() for path, text in files.items()})))
    module = slicer.index.parse("net.py")
    return slicer.callers.examples(slicer.module_classes(module)[0], module)


def test_a_main_block_shows_arguments_and_inputs():
    block = (
        'if __name__ == "__main__":\n    x = torch.randn(2, 6).cuda()\n    net = Net(6, depth=2).eval()\n    net(x)\n'
    )
    [found] = examples({"net.py": CLASS + block})
    assert (found.init, found.init_keywords) == (("6",), (("depth", "2"),))
    assert found.inputs == ("torch.randn(2, 6)",)
    assert found.evidence == "main"


def test_a_main_block_is_no_definition_that_a_class_could_need():
    block = 'if __name__ == "__main__":\n    scale = 3\n'
    text = cut({"m.py": CLASS + block}, "m.py", "Net")
    assert "scale" not in text


def test_a_test_shows_them_too_and_an_unreadable_one_does_no_harm():
    test = (
        "from net import Net\n\ndef test_net():\n    net = Net(4)\n    assert net(torch.ones(3, 4)).shape == (3, 4)\n"
    )
    [found] = examples({"net.py": CLASS, "tests/test_net.py": test, "tests/test_bad.py": "Net(\n"})
    assert (found.init, found.inputs, found.evidence) == (("4",), ("torch.ones(3, 4)",), "test")


LAYERS = """
from torch import nn
from timm.models.layers import DropPath, to_2tuple
import opt_einsum as oe

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = DropPath(0.0)
        self.size = to_2tuple(3)

    def forward(self, x):
        return oe.contract("ij,ij->i", self.drop(x), x) * self.size[1]
"""


def test_small_helpers_of_other_packages_are_stood_in_for():
    text = cut({"m.py": LAYERS}, "m.py", "M")
    assert "timm" not in text
    assert "opt_einsum" not in text
    assert run(text)["Model"]()(torch.ones(2, 4)).tolist() == [12.0, 12.0]


def test_a_tree_that_holds_the_package_itself_gives_its_own():
    own = "from torch import nn\n\nclass DropPath(nn.Identity):\n    mark = 1\n\ndef to_2tuple(x):\n    return (x, x)\n"
    files = {"src/timm/models/layers.py": own, "src/timm/m.py": LAYERS, "src/timm/__init__.py": ""}
    text = cut(files, "src/timm/m.py", "M")
    assert "class DropPath(nn.Identity)" in text


BUILT = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(x)

class Net(nn.Module):
    def __init__(self, block, depth, width=8):
        super().__init__()
        self.blocks = nn.Sequential(*[block(width) for _ in range(depth)])

    def forward(self, x):
        return self.blocks(x)

class Wide(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.fc = nn.Linear(table["width"], 4)

    def forward(self, x):
        return self.fc(x)

class Other(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        return self.cell(x)

def small():
    return Net(Block, depth=2)

def large(width=64):
    table = {"width": width}
    return Net(Block, 20, width), Wide(table), Other(unknown)
"""


def test_a_function_of_the_same_file_shows_how_a_class_is_constructed():
    slicer = Slicer(PackageIndex(MemoryTree({"pkg/net.py": BUILT.encode()})))
    module = slicer.index.parse("pkg/net.py")
    found = {item.names[0]: find_constructions(slicer.index, module, item) for item in slicer.module_classes(module)}
    assert [item.init for item in found["Wide"].plain] == [("{'width': 64}",)]
    assert found["Other"] == found["Block"] == Constructions((), ())
    [(variant, example)] = found["Net"].fixed
    assert example.init == ("2",)
    text, _ = write_slice(slicer, variant)
    space: dict = {}
    exec(text, space)
    assert space["Model"](2)(torch.ones(3, 8)).shape == (3, 8)
    assert "class Block(" in text


PACKED = """
import torch
from torch import nn
from einops import pack, unpack
from packaging import version

NEW = version.parse(torch.__version__) >= version.parse("1.10")

class M(nn.Module):
    def forward(self, image, token):
        both, shapes = pack([image, token], "b * d")
        image, token = unpack(both * (2 if NEW else 0), shapes, "b * d")
        return image, token, both
"""


def test_packing_and_versions_are_stood_in_for():
    model = run(cut({"m.py": PACKED}, "m.py", "M"))["Model"]()
    image, token, both = model(torch.ones(2, 3, 5, 4), torch.ones(2, 4))
    assert image.shape == (2, 3, 5, 4)
    assert token.shape == (2, 4)
    assert both.shape == (2, 16, 4)
    assert float(image.sum() + token.sum()) == 2 * float(both.sum())


def test_code_in_documentation_shows_arguments_and_inputs():
    page = "# Net\n\n```bash\npip install net\n```\n\n```python\nnet = Net(6)\nnet(torch.randn(2, 6))\n```\n"
    [found] = examples({"net.py": CLASS, "README.md": page})
    assert (found.init, found.inputs, found.evidence) == (("6",), ("torch.randn(2, 6)",), "documentation")


STAGED = """
from torch import nn

class Stem(nn.Module):
    pass

class Block(nn.Module):
    expansion = 2

    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width * 2)

    def forward(self, x):
        return self.fc(x)

class Net(nn.Module):
    def __init__(self, block, layers, width=8):
        super().__init__()
        self.blocks = nn.ModuleList(block(width) for _ in layers)
        self.fc = nn.Linear(width * block.expansion, layers[0])

    def forward(self, x):
        return self.fc(sum(block(x) for block in self.blocks))
"""
HANDED_ON = "\ndef small(pretrained=False, **kwargs):\n    return Net(Block, [3, 4], **kwargs)\n"
LOOKED_UP = """
SPEC = {1: (Block, [3, 4])}

def small(depth):
    block, layers = SPEC[depth]
    return Net(block, layers)
"""


@pytest.mark.parametrize(("shown", "given"), [(HANDED_ON, ("[3, 4]",)), (LOOKED_UP, ()), ("", ())])
def test_the_blocks_of_a_network_are_classes_of_its_file(shown, given):
    slicer = Slicer(PackageIndex(MemoryTree({"pkg/net.py": (STAGED + shown).encode()})))
    module = slicer.index.parse("pkg/net.py")
    definition = next(item for item in slicer.module_classes(module) if item.names[0] == "Net")
    [(variant, example)] = find_constructions(slicer.index, module, definition).fixed
    assert example.init == given
    model = run(write_slice(slicer, variant)[0])["Model"](*([] if shown == LOOKED_UP else [[3, 4]]))
    assert model(torch.ones(3, 8)).shape == (3, 3)
    assert type(model.blocks[0]).__name__ == "Block"


def test_other_files_show_plain_constructions_of_the_same_class():
    user = "from torch import nn\nfrom pkg.net import Wide\n\nclass User(nn.Module):\n    def __init__(self):\n"
    user += "        super().__init__()\n        self.wide = Wide({'width': 12})\n"
    other = "from elsewhere import Wide\n\ndef make():\n    return Wide({'width': 99})\n"
    net = "from torch import nn\n\nclass Wide(nn.Module):\n    def __init__(self, table):\n        super().__init__()\n"
    net += "\n    def forward(self, x):\n        return x\n"
    files = {"pkg/net.py": net, "pkg/user.py": user, "pkg/other.py": other}
    slicer = Slicer(PackageIndex(MemoryTree({path: text.encode() for path, text in files.items()})))
    module = slicer.index.parse("pkg/net.py")
    [definition] = slicer.module_classes(module)
    found = find_constructions(slicer.index, module, definition, slicer.callers.users(definition))
    assert [item.init for item in found.plain] == [("{'width': 12}",)]


ASKED = """
from torch import nn

class Tower(nn.Module):
    def __init__(self, classes, widths, scale=1):
        super().__init__()
        pairs = [pair for stage in widths for pair in zip(stage, stage[1:])]
        self.layers = nn.Sequential(*[nn.Linear(*pair) for pair in pairs], nn.Linear(widths[-1][-1], classes))

    def forward(self, x):
        return self.layers(x)

def make(num_classes, cfg, large=False):
    if large:
        widths = [[64, 128], [128, 256]]
    else:
        widths = [[6, 12], [12, 9]]
    other = Tower(cfg, widths)
    return Tower(num_classes, widths=widths)
"""
