"""What the static rules for Python reject, and what they must allow."""

import time

import pytest

from musadata.verifier.rules.python.legality import check_legality

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline
ext = load_inline(name="e", cpp_sources="", cuda_sources="", functions=["run"])
"""


def rules(forward, head="", init="pass"):
    body = "\n".join("        " + line for line in forward.splitlines())
    source = f"{HEAD}{head}\nclass ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    source += f"        {init}\n    def forward(self, x, y=None):\n{body}\n"
    return {finding.rule for finding in check_legality(source)}


@pytest.mark.parametrize(
    "forward",
    [
        "return torch.relu(x)",
        "return F.relu(x)",
        "return x @ y",
        "return x.matmul(y)",
        "return getattr(torch, 'relu')(x)",
        "return torch.ops.aten.relu(x)",
        "return torch.ops.aten.relu.default(x)",
        "return torch.Tensor.relu(x)",
        "f = torch.relu\nreturn f(x)",
        "from torch import relu as g\nreturn g(x)",
        "import torch as t\nreturn t.linalg.norm(x)",
        "return ext.run(x.contiguous().softmax(1))",
        "return ext.run(x if x.is_cuda else torch.relu(x))",
        "return (lambda v: torch.exp(v))(x)",
    ],
)
def test_computing_with_pytorch_is_seen_through_names(forward):
    assert "legality.compute" in rules(forward)


@pytest.mark.parametrize(
    "forward",
    [
        "return ext.run(x)",
        "x = x.contiguous().view(-1)\nout = torch.empty_like(x)\next.run(x, out)\nreturn out.view(3, -1)",
        "n = x.numel() // 2 + 1\nreturn ext.run(x, max(n, 1), sum(x.shape))",
        "return ext.softmax(x).reshape(x.shape)",
        "# torch.relu(x) would be the fallback; two pass\nreturn ext.run(x)",
        "'''try: torch.matmul(x, y)'''\nreturn ext.run(x)",
        "if x.dim() != 2:\n    raise ValueError('2d')\nreturn ext.run(x.float())",
        "return ext.run(x, torch.zeros(4, device=x.device, dtype=x.dtype))",
    ],
)
def test_allocation_views_copies_and_casts_are_allowed(forward):
    assert rules(forward) == set()


def test_a_name_that_is_assigned_its_own_methods_again_and_again_costs_nothing():
    body = "\n".join(f"y = y.view({size}).contiguous().to(x.device)" for size in range(40))
    start = time.process_time()
    assert rules(f"y = torch.zeros_like(x)\n{body}\nreturn ext.run(y)") == set()
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "head",
    [
        "for part in nn.ReLU().modules():\n    part.eval()",
        "import os\nos.environ['TORCH_CUDA_ARCH_LIST'] = '9.0'",
        "import time\nstart = time.perf_counter()",
        "from torch.nn import *",
        "from torch.utils.cpp_extension import _get_cuda_arch_flags",
        "torch._assert(True, 'shapes')",
        "weight = torch.empty(3, 4)\nfan_in, _ = nn.init._calculate_fan_in_and_fan_out(weight)",
        "built = getattr(ext, 'run', None)",
        "layer = nn.LSTM(3, 4)\nw = [getattr(layer, f'weight_ih_l{i}') for i in range(2)]",
        "layer = nn.LSTM(3, 4)\nw = [getattr(layer, f'{n}_l0') for n in ('weight_ih', 'bias_ih')]",
        "layer = nn.LSTM(3, 4)\nw = getattr(layer, 'bias_hh_l%d' % 0) + getattr(layer, 'bias_hh_l{}'.format(0))",
        "class One:\n    def __new__(cls):\n        return super().__new__(cls)",
        "import numpy as np\nimport sys, json\nimport os.path",
    ],
)
def test_usual_use_of_pytorch_is_allowed(head):
    assert rules("return ext.run(x)", head) == set()


def test_helper_that_forward_calls_is_checked_and_others_are_not():
    helper = "def helper(v):\n    return torch.exp(v)\n"
    assert "legality.compute" in rules("return ext.run(helper(x))", helper)
    assert rules("return ext.run(x)", helper) == set()


def test_reference_beside_the_candidate_is_harmless():
    reference = "class Model(nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
    assert rules("return ext.run(x)", reference) == set()


def test_layer_may_hold_parameters_but_not_be_called():
    assert rules("return ext.run(x, self.linear.weight)", init="self.linear = nn.Linear(3, 4)") == set()
    assert "legality.module_call" in rules("return self.linear(x)", init="self.linear = nn.Linear(3, 4)")


@pytest.mark.parametrize(
    ("forward", "head", "rule"),
    [
        ("try:\n    return ext.run(x)\nexcept Exception:\n    return x", "", "legality.fallback"),
        (
            "return ext.run(x)",
            "try:\n    e2 = load_inline(name='a')\nexcept Exception:\n    e2 = None",
            "legality.fallback",
        ),
        ("exec('pass')\nreturn ext.run(x)", "", "legality.dynamic"),
        ("return getattr(torch, 're' + 'lu')(x)", "", "legality.dynamic"),
        ("return ext.run(x)", "import ctypes\nctypes.CDLL(None)", "legality.import"),
        ("return ext.run(x)", "from warnings import sys", "legality.import"),
        ("return ext.run(x)", "from shutil import *", "legality.import"),
        ("return ext.run(x)", "from collections import *", "legality.dynamic"),
        ("return ext.run(x)", "import warnings\nmodules = warnings.sys.modules", "legality.introspection"),
        ("return ext.run(x)", "for held in (torch,):\n    held.os.system('ls')", "legality.introspection"),
        ("return ext.run(x)", "getattr(torch, 'os').system('ls')", "legality.dynamic"),
        ("return ext.run(x)", "getattr(torch, f'bitwise_{1}')", "legality.dynamic"),
        ("return ext.run(x)", "getattr([torch][0], f'o{chr(115)}').system('ls')", "legality.dynamic"),
        ("return ext.run(x)", "getattr([torch][0], f'{chr(111)}s_of')", "legality.dynamic"),
        ("return ext.run(x)", "getattr([torch][0], f'ji{chr(116)}')", "legality.dynamic"),
        ("return ext.run(x)", "getattr([torch][0], f'__{1}dict__')", "legality.dynamic"),
        ("return ext.run(x)", "[getattr([torch][0], n) for n in ('ab', 'os')]", "legality.dynamic"),
        ("return ext.run(x)", "for n in ('ab', 'cd'):\n    n = 'os'\n    getattr([torch][0], n)", "legality.dynamic"),
        ("return ext.run(x)", "import functools\nfunctools.reduce(getattr, ['a'], torch)", "legality.dynamic"),
        ("return ext.run(x)", "[eval][0]('1')", "legality.dynamic"),
        ("return ext.run(x)", "import typing\ntyping.get_type_hints(torch)", "legality.dynamic"),
        ("return ext.run(x)", "from string import Formatter as F\nF().get_field", "legality.dynamic"),
        ("return ext.run(x)", "match ext:\n    case object(__globals__=g):\n        pass", "legality.introspection"),
        ("return ext.run(x)", "from torch.utils._mode_utils import no_dispatch", "legality.escape"),
        ("now = time.monotonic()\nreturn ext.run(x)", "import time", "legality.clock"),
        ("return ext.run(x)", "import numpy as np\nnp.exp(1.0)", "legality.numpy"),
        ("return ext.run(x)", "import numpy as np\nstep: 'np.exp(1.0)' = 1", "legality.numpy"),
        ("return ext.run(x)", "def late():\n    import numpy", "legality.numpy"),
        ("return ext.run(x)", "import pandas", "legality.import"),
        ("return ext.run(x)", "import os\nos.system('ls')", "legality.system"),
        ("return ext.run(x)", "torch.allclose = lambda *a: True", "legality.patch"),
        ("return ext.run(x)", "setattr(torch, 'equal', None)", "legality.patch"),
        ("return ext.run(x).__class__.__subclasses__()", "", "legality.introspection"),
        ("return ext.run(x)", "made = type(ext).__new__(type(ext))", "legality.introspection"),
        ("g = torch.cuda.CUDAGraph()\nreturn ext.run(x)", "", "legality.torch_program"),
        ("return ext.run(x)", "fast = torch.compile(lambda v: v)", "legality.torch_program"),
        ("return ext.run(x.cpu())", "", "legality.host"),
        ("pass", "", "legality.empty"),
        ("return x", "", "legality.empty"),
    ],
)
def test_other_ways_around_a_kernel_are_named(forward, head, rule):
    assert rule in rules(forward, head)


def test_embedded_binary_is_seen_and_long_sources_are_not():
    import base64
    import random

    blob = base64.b64encode(random.Random(0).randbytes(3000)).decode()
    assert "legality.blob" in rules("return ext.run(x)", f"DATA = '{blob}'")
    assert rules("return ext.run(x)", f"SOURCE = '''{'float a = b * c; ' * 300}'''") == set()


def test_program_without_native_code_is_no_kernel():
    source = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.view(-1)\n"
    assert {finding.rule for finding in check_legality(source)} == {"legality.no_kernel"}


@pytest.mark.parametrize(
    "head",
    [
        "import functools\nfunctools.update_wrapper(ext, nn.Linear, assigned=('forward',))",
        "import functools\nfunctools.wraps(ext, assigned=('__globals__',))(ext)",
        "import functools\n[functools][0].update_wrapper(ext, ext)",
        "import logging.config",
        "from torch.utils import benchmark",
        "(lambda m: m.benchmark)(torch.utils)",
        "class Held:\n    m = torch.utils",
        "class Held:\n    import functools",
        "from torch.nn import *\nrun = parallel.parallel_apply",
        "torch.nn.modules.module.functools.partial(print)",
        "breakpoint()",
        "import dataclasses\ndataclasses.dataclass(type('A', (), {}))",
        "from dataclasses import dataclass\nclass A:\n    __annotations__ = {'x': int}\ndataclass(A)",
        "setattr(ext, '__anno' + 'tations__', {})",
    ],
)
def test_what_reads_by_name_or_evaluates_text_is_refused(head):
    assert rules("return ext.run(x)", head) & {"legality.dynamic", "legality.escape", "legality.introspection"}


@pytest.mark.parametrize(
    "head",
    [
        "import functools\nclass A:\n    @functools.lru_cache(None)\n    def f(self):\n        return 1",
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Config:\n    block: int = 256",
        "amp = torch.cuda.amp if hasattr(torch, 'amp') else torch\nf = amp.custom_fwd",
        "from torch.nn import *\ndef parallel(x):\n    return x\nparallel(1)",
        "import logging\nlog = logging.getLogger(__name__)\nlog.setLevel(logging.INFO)",
        "import os\nhere = os.path.join(os.getcwd(), 'build')",
        "class A(nn.Module):\n    def fill(self, n):\n        setattr(self, f'w{n}', n)",
        "@torch.compiler.disable\ndef f(x):\n    return x",
    ],
)
def test_usual_use_of_libraries_is_allowed(head):
    assert rules("return ext.run(x)", head) == set()
