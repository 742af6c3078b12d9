"""Functions of a file that compute with tensors are modules of their own."""

from musadata.mining.reading.parsing import parse_module
from musadata.mining.slicing.functions import tensor_functions

CODE = """
import torch

def scaled(x, by):
    return torch.mul(x, by)

def stated(x: torch.Tensor):
    return x.t()

def drawn(count, shape, device):
    return torch.randint(0, count, shape, device=device)

def steps(n):
    return torch.arange(n) / n
"""


def test_functions_that_only_make_tensors_of_sizes_are_none():
    found = [item.names[0] for item in tensor_functions(parse_module("pkg.ops", "pkg/ops.py", CODE))]
    assert found == ["scaled", "stated"]
