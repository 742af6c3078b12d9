"""The sizes that the installed torch's own messages name."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from musadata.mining.arguments.stated_sizes import WANTED, Stated, stated_sizes


def ones(*shape):
    return torch.ones(shape)


def both(got, want, dim=-1, *, joins=False):
    return [Stated(got, want, dim, joins), Stated(want, got, dim, joins)]


CASES = {
    "convolution": (lambda: nn.Conv2d(3, 6, 3)(ones(2, 5, 8, 8)), [Stated(5, 3, 1)]),
    "state": (lambda: nn.LSTM(5, 8)(ones(4, 3, 5), (ones(1, 2, 8), ones(1, 2, 8))), [Stated(2, 3, 1)]),
    "layer norm": (lambda: nn.LayerNorm(24)(ones(4, 32)), [Stated(32, 24, 1)]),
    "groups": (lambda: F.group_norm(ones(2, 6, 4), 4), [Stated(6, 4, 1)]),
    "linear": (lambda: nn.Linear(24, 8)(ones(4, 32)), [Stated(32, 24)]),
    "product": (lambda: ones(4, 32) @ ones(24, 8), [Stated(32, 24)]),
    "batch norm": (lambda: nn.BatchNorm1d(8)(ones(4, 5)), [Stated(5, 8, 1)]),
    "sum": (lambda: ones(4, 5) + ones(4, 7), both(5, 7, 1)),
    "expansion": (lambda: ones(4, 5).expand(4, 7), both(7, 5, 1)),
    "loss": (lambda: F.binary_cross_entropy(ones(2, 3), ones(2, 4)), both(4, 3, 1)),
    "joined": (lambda: torch.cat([ones(2, 3), ones(2, 5)], 0), [*both(5, 3, joins=True), Stated(5, 3)]),
    "recurrent": (lambda: nn.GRU(8, 4)(ones(5, 2, 6)), [Stated(6, 8)]),
    "attention": (lambda: nn.MultiheadAttention(8, 2)(*[ones(3, 2, 6)] * 3), [Stated(6, 8)]),
    "parts": (lambda: ones(4, 6).split([2, 3], 1), [Stated(6, 5, 1)]),
}


def message(call):
    with pytest.raises(Exception) as caught:
        call()
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize(("call", "stated"), CASES.values(), ids=CASES)
def test_the_sizes_of_a_message_are_read(call, stated):
    assert stated_sizes(message(call)) == stated


def test_every_pattern_reads_a_message_of_this_torch():
    messages = [message(call) for call, _ in CASES.values()]
    assert [pattern for pattern, _ in WANTED if not any(re.search(pattern, text) for text in messages)] == []
