"""A candidate's Python gets the other device's name, and nothing else changes."""

import ast

import pytest

from musadata.verifier.backends.musa.python_port import port_python
from tests.adversarial.programs import read_programs


@pytest.mark.parametrize(
    ("cuda", "musa"),
    [
        ("import torch\ntorch.cuda.synchronize()", "import torch\ntorch.musa.synchronize()"),
        ("import torch as t\nt.cuda.current_stream()", "import torch as t\nt.musa.current_stream()"),
        ("import torch.cuda\n", "import torch.musa\n"),
        ("from torch.cuda import Stream, Event\n", "from torch.musa import Stream, Event\n"),
        ("from torch import nn, cuda\ncuda.Stream()", "from torch import nn, musa as cuda\ncuda.Stream()"),
        ("from torch import cuda as c\n", "from torch import musa as c\n"),
        ("from torch import nn\nm = nn.Linear(1, 2).cuda()", "from torch import nn\nm = nn.Linear(1, 2).musa()"),
        ("y = x.contiguous().cuda()", "y = x.contiguous().musa()"),
        ("assert x.is_cuda, 'x must be on cuda'", "assert x.is_musa, 'x must be on cuda'"),
        ("y = x.to('cuda')", "y = x.to('musa')"),
        ('y = f(device="cuda:0")', 'y = f(device="musa:0")'),
        ('y = f(f"cuda:{index}")', 'y = f(f"musa:{index}")'),
        ("if x.device.type == 'cuda': pass", "if x.device.type == 'musa': pass"),
        ("é = x.cuda(); y = é.cuda()", "é = x.musa(); y = é.musa()"),
        ("y = (x\n  .cuda(\n))", "y = (x\n  .musa(\n))"),
    ],
)
def test_the_device_is_named_as_musa_names_it(cuda, musa):
    assert port_python(cuda) == musa
    assert port_python(musa) == musa


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nv = torch.version.cuda",
        "from torch.utils.cpp_extension import load_inline\next = load_inline('x', cuda_sources=s)\next.cuda(1)",
        "self.cuda = 1\ncuda = 2\n",
        '"""cuda"""x',
        "s = r'''\ncuda_runtime.h cuda '''  # x.cuda()",
        "s = 'cudart'; t = 'on cuda'; u = f'{x}cuda'",
        "def f(:\n",
        "x = 1\x0c\r\ny = 2\r",
    ],
)
def test_everything_else_is_left_as_it_is(source):
    assert port_python(source) == source


@pytest.mark.parametrize("program", read_programs("honest"), ids=lambda program: program.name)
def test_honest_programs_keep_their_shape(program):
    ported = port_python(program.source)
    assert port_python(ported) == ported
    assert ported.count("\n") == program.source.count("\n")
    nodes, moved = list(ast.walk(ast.parse(program.source))), list(ast.walk(ast.parse(ported)))
    assert [type(node) for node in moved] == [type(node) for node in nodes]
    assert not [node for node in moved if isinstance(node, ast.Constant) and node.value == "cuda"]
    sources = [node.value for node in nodes if isinstance(node, ast.Constant) and "__global__" in str(node.value)]
    assert sources == [n.value for n in moved if isinstance(n, ast.Constant) and "__global__" in str(n.value)]
