"""What the installed torch's own messages say."""

import abc
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from musadata.mining.arguments.stated_sizes import Stated, stated_sizes
from musadata.mining.reading.messages import NO_TENSOR, Said


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


def large():
    return torch.empty(10**15)


SAID = {
    Said.EXPECTED: [lambda: nn.GRU(8, 4)(ones(5, 2, 6)), lambda: nn.Conv2d(3, 6, 3)(ones(2, 5, 8, 8))],
    Said.SHAPE: [lambda: nn.LayerNorm(24)(ones(4, 32)), lambda: torch.bmm(ones(2, 3, 4), ones(2, 5, 4))],
    Said.SHAPES: [lambda: F.binary_cross_entropy(ones(2, 3), ones(2, 4))],
    Said.GROUPS: [lambda: F.group_norm(ones(2, 6, 4), 4)],
    Said.PRODUCT: [lambda: ones(4, 32) @ ones(24, 8)],
    Said.STATISTICS: [lambda: nn.BatchNorm1d(8)(ones(4, 5))],
    Said.SUM: [lambda: ones(4, 5) + ones(4, 7), lambda: ones(4, 5).expand(4, 7)],
    Said.JOIN: [lambda: torch.cat([ones(2, 3), ones(2, 5)], 0)],
    Said.SPLIT: [lambda: ones(4, 6).split([2, 3], 1)],
    Said.VIEW: [lambda: ones(2, 7).view(2, 3)],
    Said.POOLED: [lambda: F.max_pool2d(ones(1, 3, 4, 4), 7)],
    Said.SMALL: [
        lambda: nn.Conv2d(3, 3, 7)(ones(1, 3, 4, 4)),
        lambda: F.pad(ones(1, 3, 4, 4), (7, 7, 7, 7), mode="reflect"),
        lambda: F.max_pool2d(ones(1, 3, 4, 4), 7),
        lambda: nn.BatchNorm1d(3)(ones(1, 3)),
        lambda: ones(1, 3).unfold(1, 5, 1),
        lambda: F.unfold(ones(1, 3, 2, 2), 5),
    ],
    Said.LARGE: [large],
    Said.DIVIDES: [
        lambda: nn.MultiheadAttention(7, 2),
        lambda: ones(2, 7).view(2, 3),
        lambda: ones(2, 7).unflatten(1, (2, 3)),
    ],
    Said.RANK: [
        lambda: nn.BatchNorm2d(3)(ones(4, 3, 5)),
        lambda: ones(4, 5)[:, :, 0],
        lambda: ones(4, 5).permute(0, 2, 1),
    ],
    Said.AXIS: [lambda: ones(4, 5).transpose(1, 2)],
    Said.RANKS: [lambda: torch.cat([ones(4, 5, 6), ones(4, 5)], 1)],
    Said.UNPACK: [lambda: unpacked(ones(3).tolist()), lambda: unpacked([1])],
    Said.INTEGERS: [
        lambda: ones(4)[ones(3)],
        lambda: F.one_hot(ones(3)),
        lambda: ones(4, 4).gather(1, ones(4, 1)),
    ],
    Said.FLOATS: [
        lambda: F.gelu(ones(4).long()),
        lambda: ones(4).long().mean(),
        lambda: nn.Linear(4, 5)(ones(3, 4).long()),
        lambda: nn.Conv1d(3, 4, 1)(ones(2, 3, 4).long()),
    ],
    Said.SHARES: [
        lambda: F.binary_cross_entropy(3 * ones(3), ones(3)),
        lambda: torch.bernoulli(3 * ones(3)),
        lambda: torch.multinomial(-ones(3), 1),
        lambda: nn.Embedding(5, 4)(9 * ones(3).long()),
    ],
    Said.SCALAR: [
        lambda: bool(ones(3)),
        lambda: range(ones(3)),
        lambda: int(ones(3)),
        lambda: torch.zeros(ones(3)),
        lambda: ones(4).view(ones(2)),
    ],
    Said.SEQUENCE: [lambda: list(3), lambda: eval("3[0]"), lambda: len(3)],
    Said.NONE: [lambda: None + 3],
    Said.REQUIRED: [lambda: nn.Linear(), lambda: nn.Linear(8)],
    Said.ATTRIBUTE: [lambda: (3).shape],
    Said.DEVICE: [lambda: torch.distributed.get_world_size()],
    Said.OUTDATED: [lambda: torch.rfft, lambda: torch.symeig(ones(2, 2)), lambda: Old()(ones(2))],
    Said.BROKEN: [lambda: super(nn.Linear, 3), lambda: nn.ReLU(True, inplace=True), lambda: Abstract()],
}


class Old(torch.autograd.Function):
    def forward(self, x):
        return x


class Abstract(abc.ABC):
    @abc.abstractmethod
    def forward(self, x): ...


def unpacked(values):
    first, second = values
    return first, second


@pytest.mark.parametrize("said", Said, ids=lambda said: said.name)
def test_each_part_of_a_pattern_reads_a_message_of_this_torch(said):
    messages = [message(call) for call in SAID[said]]
    assert all(map(said.read, messages))
    parts = [said.value] if "(?" in said.value else said.value.split("|")
    ours = {NO_TENSOR, "NVIDIA driver"}  # our own words, and what a machine with a device does not say
    unread = [part for part in parts if not any(re.search(part, text, re.IGNORECASE) for text in messages)]
    assert set(unread) <= ours


def test_there_are_no_more_than_thirty_patterns_on_messages():
    assert len(Said) <= 30
