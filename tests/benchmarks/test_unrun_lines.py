"""Counting the statements of a reference that never run."""

from benchmarks.unrun_lines import count

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    '''Doubles its input.'''
    def __init__(self, twice):
        super().__init__()
        self.twice = twice

    def forward(self, x):
        if not self.twice:
            x = x + 1
            return x
        return 2 * x

def get_inputs():
    return [torch.ones(2)]

def get_init_inputs():
    return [True]
"""


def test_statements_in_a_branch_that_is_not_taken_are_unrun():
    assert count(REFERENCE) == {"statements": 8, "unrun": 2}
    assert count(REFERENCE.replace("[True]", "[False]")) == {"statements": 8, "unrun": 1}
