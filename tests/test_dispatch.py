"""What PyTorch need not import."""

import subprocess
import sys

FAKE = """
import sys
import torch
from musadata.dispatch import without_dynamo

with without_dynamo(), torch.device("meta"):
    print(torch.softmax(torch.zeros(3, 4), dim=-1).shape)
print("torch._dynamo" in sys.modules, "torch._inductor" in sys.modules)
"""
USED = """
import sys
import torch
from musadata.dispatch import without_dynamo

with without_dynamo():
    import torch._dynamo.config
    first = torch._dynamo.config.cache_size_limit
    with without_dynamo():
        assert hasattr(sys.modules["torch._dynamo"], "optimize")
print(torch.compile(lambda x: x + 1, backend="eager")(torch.zeros(2)).sum().item(), first > 0)
"""
CHECKED = """
import sys
import torch
from musadata.dispatch import check_without_compiler

check_without_compiler()
torch.nn.functional.max_unpool2d(torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.long), 2)
print("torch.fx.experimental.symbolic_shapes" in sys.modules)
try:
    torch._check(False)
except RuntimeError:
    print("refused")
"""


def run(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split("\n")


def test_operators_are_decomposed_without_the_compiler():
    assert run(FAKE)[:2] == ["torch.Size([3, 4])", "False False"]


def test_who_needs_the_compiler_gets_it():
    assert run(USED)[0] == "2.0 True"


def test_plain_conditions_are_checked_without_the_compiler():
    assert run(CHECKED)[:2] == ["False", "refused"]
