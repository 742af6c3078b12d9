"""Code around models that a reference has no use for: loggers, lazy imports, and checks for optional packages."""

from typing import ClassVar

import pytest
import torch

from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import write_slice
from musadata.sources.dependencies import PLACE
from musadata.sources.trees import MemoryTree
from tests.mining.slicing.test_slicing import cut, run

LOGS = (
    "import logging\nimport threading\n_lock = threading.Lock()\n_handler = None\n"
    "def _configure():\n    global _handler\n    with _lock:\n        _handler = 1\n"
    "def get_logger(name):\n    _configure()\n    return logging.getLogger(name)\n"
)
HEAD = "from torch import nn\nfrom . import logs\nlogger = logs.get_logger(__name__)\n"


def of_block(head: str, forward: str, files: dict[str, str]) -> str:
    text = f"{head}class Block(nn.Module):\n    def forward(self, x):\n{forward}        return x + 1\n"
    return cut({"pkg/__init__.py": "", **files, "pkg/block.py": text}, "pkg/block.py", "Block")


def test_calls_that_only_report_are_no_code_of_a_reference():
    head = f"import warnings\nfrom loguru import logger as other\n{HEAD}"
    forward = (
        "        logger.info('%s', x.shape)\n        other_log.warning_once(f'{x}')\n"
        "        if x is None: warnings.warn('none'); x = 2\n        if x.dim() > 9: print(x)\n"
    )
    written = of_block(head, forward, {"pkg/logs.py": LOGS})
    assert not any(word in written for word in ("log", "warn", "print", "threading"))
    assert torch.equal(run(written)["Model"]()(torch.ones(2)), torch.full((2,), 2.0))


def test_a_logger_that_is_read_is_one_of_python_itself():
    written = of_block(HEAD, "        if logger.isEnabledFor(99): x = x * 2\n", {"pkg/logs.py": LOGS})
    assert "logger = logging.getLogger(__name__)" in written
    assert "_lock" not in written
    run(written)["Model"]()(torch.ones(2))


def test_a_list_that_is_called_log_is_filled():
    written = of_block("from torch import nn\n", "        log = []\n        log.append(x)\n        x = log[0]\n", {})
    assert "log.append(x)" in written


def test_what_a_statement_calls_is_defined_before_it_with_all_that_this_calls():
    helpers = (
        "def width():\n    return _inner()\n\ndef _inner():\n    return _innermost()\n\n"
        "def _innermost():\n    return ZZ\n\nZZ = 3\n"
    )
    head = "from torch import nn\nfrom .helpers import width\nAA = width()\n"
    written = of_block(head, "        x = x + AA\n", {"pkg/helpers.py": helpers})
    assert torch.equal(run(written)["Model"]()(torch.zeros(1)), torch.full((1,), 4.0))


def test_names_that_a_package_imports_lazily_are_found():
    package = (
        "import sys\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    try:\n        check()\n"
        "    except ImportError:\n        pass\n    else:\n        from .parts import double\n"
        "else:\n    sys.modules[__name__] = Lazy(__name__)\n"
    )
    files = {"lazy/__init__.py": package, "lazy/parts.py": "def double(x):\n    return 2 * x\n"}
    written = of_block("from torch import nn\nfrom lazy import double\n", "        x = double(x)\n", files)
    assert "def double(x)" in written


def test_optional_packages_are_never_at_hand():
    forward = (
        "        if is_torch_available() and not is_apex_available():\n            x = x * 2\n"
        "        else:\n            x = apex_double(x)\n"
    )
    head = "from torch import nn\nfrom .checks import is_torch_available, is_apex_available\nimport apex_double\n"
    checks = "def is_torch_available():\n    return True\n\ndef is_apex_available():\n    return missing\n"
    assert "apex" not in of_block(head, forward, {"pkg/checks.py": checks})


class Release:
    """A package outside the tree."""

    names: ClassVar = {"transformers"}

    def __init__(self, files: dict[str, str]):
        self._files = {f"{PLACE}/transformers/{path}": text for path, text in files.items()}

    def paths(self):
        return self._files

    def holds(self, path: str) -> bool:
        return path in self._files

    def read(self, path: str) -> bytes:
        return self._files[path].encode()


def test_a_base_class_that_needs_most_of_its_package_has_a_lighter_one_in_its_place():
    release = Release(
        {
            "__init__.py": "",
            "pytorch_utils.py": "def apply_chunking_to_forward(f, *x):\n    return f(*x)\n",
            "modeling_utils.py": (
                "from torch import nn\nclass PreTrainedModel(nn.Module):\n    def post_init(self):\n"
                "        download_everything()\n\ndef twice(x):\n    return x + x\n\n"
                "PreTrainedModel.push = download_everything(PreTrainedModel)\n"
            ),
        }
    )
    text = (
        "from transformers.modeling_utils import PreTrainedModel, twice\nclass Block(PreTrainedModel):\n"
        "    def __init__(self, config):\n        super().__init__(config)\n        self.post_init()\n"
        "    def forward(self, x):\n        return twice(x)\n"
    )
    index = PackageIndex(MemoryTree({"block.py": text.encode()}), dependencies=release)
    slicer = Slicer(index)
    [block] = slicer.module_classes(index.parse("block.py"))
    written = write_slice(slicer, block)[0]
    assert "download_everything" not in written
    assert torch.equal(run(written)["Model"](None)(torch.ones(1)), torch.full((1,), 2.0))


def test_a_name_is_found_where_a_release_has_moved_its_module():
    release = Release({"__init__.py": "", "models/bert/modeling_bert.py": "def gelu(x):\n    return x * 2\n"})
    text = (
        "from torch import nn\ntry:\n    from transformers.modeling_bert import gelu\nexcept ImportError:\n    pass\n"
        "class Block(nn.Module):\n    def forward(self, x):\n        return gelu(x)\n"
    )
    index = PackageIndex(MemoryTree({"block.py": text.encode()}), dependencies=release)
    slicer = Slicer(index)
    [block] = slicer.module_classes(index.parse("block.py"))
    assert torch.equal(run(write_slice(slicer, block)[0])["Model"]()(torch.ones(1)), torch.full((1,), 2.0))


def test_weights_that_are_downloaded_are_a_loss_for_want_of_a_network():
    release = Release({"__init__.py": "", "models/auto/modeling_auto.py": "class AutoModel:\n    pass\n"})
    text = (
        "from torch import nn\nfrom transformers.models.auto.modeling_auto import AutoModel\n"
        "class Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.net = AutoModel.from_pretrained('base')\n    def forward(self, x):\n        return self.net(x)\n"
    )
    index = PackageIndex(MemoryTree({"block.py": text.encode()}), dependencies=release)
    slicer = Slicer(index)
    [block] = slicer.module_classes(index.parse("block.py"))
    with pytest.raises(ConnectionError):
        run(write_slice(slicer, block)[0])["Model"]()


@pytest.mark.parametrize("place", ["apex.normalization", "apex.normalization.fused_layer_norm"])
def test_a_fused_normalization_is_that_of_torch(place):
    code = (
        f"from torch import nn\nfrom {place} import FusedLayerNorm as BertLayerNorm\n\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.norm = BertLayerNorm(6, eps=1e-12)\n\n    def forward(self, x):\n        return self.norm(x)\n"
    )
    text = cut({"net.py": code}, "net.py", "Net")
    assert "LayerNorm(6, eps=1e-12)" in text and "apex" not in text
    assert type(run(text)["Model"]().norm) is torch.nn.LayerNorm
