"""Small references of every operator family, with their inputs: trusted code, so it may run in the test's process."""

import dataclasses
from functools import cache

from musadata.records import InputSpec, OperatorFamily, Provenance, SourceKind, Task, Trace
from musadata.rows import restore
from musadata.tracing.execution import trace_reference

_TEMPLATE = """\
import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {setup}

    def forward(self, {arguments}):
        {forward}


def get_inputs():
    return []


def get_init_inputs():
    return []
"""


def floats(*shape: int) -> tuple[str, str, tuple[int, ...], float, float]:
    return "normal", "float32", shape, 0.0, 0.0


def indices(high: int, *shape: int) -> tuple[str, str, tuple[int, ...], float, float]:
    return "integers", "int64", shape, 0.0, float(high)


def bools(*shape: int) -> tuple[str, str, tuple[int, ...], float, float]:
    return "bool", "bool", shape, 0.0, 0.0


# name -> (forward, setup, inputs)
_EXAMPLES: dict[str, tuple[str, str, dict[str, tuple[str, str, tuple[int, ...], float, float]]]] = {
    "gelu_chain": ("return F.gelu(x) * 2 + y", "pass", {"x": floats(8, 33), "y": floats(33)}),
    "relu": ("return torch.relu(x)", "pass", {"x": floats(4, 4, 4, 4)}),
    "linear": ("return torch.tanh(self.linear(x))", "self.linear = nn.Linear(64, 32)", {"x": floats(16, 64)}),
    "convolution": (
        "return F.relu(self.conv(x))",
        "self.conv = nn.Conv2d(3, 8, 3, padding=1, stride=2)",
        {"x": floats(2, 3, 16, 16)},
    ),
    "strides": (
        "return self.second(self.first(x))",
        "self.first, self.second = nn.Conv1d(8, 8, 1), nn.Conv1d(8, 8, 3, stride=2, padding=1)",
        {"x": floats(2, 8, 32)},
    ),
    "block": (
        "return F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)",
        "self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)",
        {"x": floats(2, 3, 18, 18)},
    ),
    "softmax": ("return torch.softmax(x, dim=-1)", "pass", {"x": floats(8, 128)}),
    "layer_norm": ("return self.norm(x)", "self.norm = nn.LayerNorm(32)", {"x": floats(2, 10, 32)}),
    "turned_rows": (
        "return self.norm(x.transpose(0, 2)), torch.softmax(x.transpose(0, 1), 2), x.transpose(0, 1).sum(2)",
        "self.norm = nn.LayerNorm(20)",
        {"x": floats(20, 3, 21)},
    ),
    "group_norm": ("return self.norm(x)", "self.norm = nn.GroupNorm(2, 8)", {"x": floats(2, 8, 6, 6)}),
    "matmul": ("return a @ b", "pass", {"a": floats(33, 20), "b": floats(20, 70)}),
    "attention": (
        "return torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1) @ v",
        "pass",
        {"q": floats(2, 4, 16, 16), "k": floats(2, 4, 16, 16), "v": floats(2, 4, 16, 16)},
    ),
    "masked_attention": (
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.5)",
        "pass",
        {**{name: floats(2, 4, 16, 8) for name in "qkv"}, "m": floats(16, 16)},
    ),
    "decoding": (
        "return F.scaled_dot_product_attention(q, k, v)",
        "pass",
        {"q": floats(2, 4, 1, 16), "k": floats(2, 4, 2100, 16), "v": floats(2, 4, 2100, 16)},
    ),
    "multihead": (
        "return self.attention(x, x, x)[0]",
        "self.attention = nn.MultiheadAttention(16, 2, batch_first=True)",
        {"x": floats(2, 5, 16)},
    ),
    "lstm": ("return self.rnn(x)[0]", "self.rnn = nn.LSTM(8, 16, batch_first=True)", {"x": floats(2, 5, 8)}),
    "embedding": ("return self.table(i)", "self.table = nn.Embedding(100, 16)", {"i": indices(100, 4, 7)}),
    "scatter_add": (
        "return torch.zeros_like(x).scatter_add(1, i, x)",
        "pass",
        {"x": floats(4, 16), "i": indices(16, 4, 16)},
    ),
    "gather": ("return torch.gather(x, 1, i)", "pass", {"x": floats(4, 16), "i": indices(16, 4, 5)}),
    "cross_entropy": ("return F.cross_entropy(a, b)", "pass", {"a": floats(8, 10), "b": indices(10, 8)}),
    "fixed_reshape": ("return x.reshape(3, 5, 4).sum(1)", "pass", {"x": floats(15, 4)}),
    "cumsum": ("return torch.cumsum(x, 1)", "pass", {"x": floats(2, 40)}),
    "product": ("return x.prod(dim=1) * 2", "pass", {"x": floats(3, 40)}),
    "sum_of_products": ("return (x * y).sum()", "pass", {"x": floats(16, 16), "y": floats(16, 16)}),
    "deep_product": ("return x @ y", "pass", {"x": floats(40, 2100), "y": floats(2100, 24)}),
    "same_names": (
        "return (x @ self.weight) @ weight",
        "self.weight = nn.Parameter(torch.randn(24, 16))",
        {"x": floats(8, 24), "weight": floats(16, 40)},
    ),
    "few_rows": ("return x @ y.T", "pass", {"x": floats(3, 100), "y": floats(40, 100)}),
    "variance": ("return x.var(dim=1, keepdim=True) + x.amax(dim=(0, 1))", "pass", {"x": floats(4, 16, 8)}),
    "triangle": ("n = x * x.square().mean(1, True); return torch.tril(n).var(1)", "pass", {"x": floats(2, 9, 9)}),
    "average_pool": ("return self.pool(x)", "self.pool = nn.AvgPool2d(3, 2, 1)", {"x": floats(2, 4, 9, 9)}),
    "masked": ("return x.masked_fill(m, -1e9)", "pass", {"x": floats(4, 8, 8), "m": bools(4, 1, 8)}),
    "transposed": ("return x.transpose(1, 2).contiguous() + 1", "pass", {"x": floats(2, 3, 5)}),
    "halves": ("a, b = x.chunk(2, 1); return torch.cat([b, a.sigmoid()], 1)", "pass", {"x": floats(3, 8)}),
    "in_place": ("y = x * 2; y.add_(1); y.relu_(); return y", "pass", {"x": floats(3, 8)}),
    "maximum": ("return x.max(dim=1)", "pass", {"x": floats(3, 8)}),
    "softmax_gather": ("return x.softmax(-1).gather(-1, i)", "pass", {"x": floats(4, 16), "i": indices(16, 4, 5)}),
    "gather_softmax": ("return x.gather(-1, i).log_softmax(-1)", "pass", {"x": floats(4, 16), "i": indices(16, 4, 5)}),
    "selu": ("return F.selu(x) + F.softplus(x, 2.0)", "pass", {"x": floats(4, 9)}),
    "losses": (
        "return F.mse_loss(x, y, reduction='sum') + F.huber_loss(x, y, delta=0.5)",
        "pass",
        {"x": floats(4, 9), "y": floats(4, 9)},
    ),
    "squared_errors": ("return F.mse_loss(x, y, reduction='none')", "pass", {"x": floats(4, 9), "y": floats(4, 9)}),
    "margins": (
        "return F.multi_margin_loss(x, t) + F.binary_cross_entropy_with_logits(x, y, pos_weight=self.pos_weight)",
        "self.register_buffer('pos_weight', torch.full((9,), 2.0))",
        {"x": floats(4, 9), "t": indices(9, 4), "y": floats(4, 9)},
    ),
    "weight_norm": (
        "return torch.relu(self.conv(x))",
        "self.conv = nn.utils.weight_norm(nn.Conv1d(3, 8, 3))",
        {"x": floats(2, 3, 21)},
    ),
    "largest": ("return x.topk(3, dim=0).values", "pass", {"x": floats(7, 5)}),
    "bag": ("return self.table(i)", "self.table = nn.EmbeddingBag(30, 8)", {"i": indices(30, 4, 7)}),
    "adaptive_volume": ("return F.adaptive_max_pool3d(x, (2, 3, 2))", "pass", {"x": floats(2, 3, 5, 7, 5)}),
    "rolled_maximum": ("return x.roll(2, -1).clamp(-1.5, 1.5).amax(1)", "pass", {"x": floats(4, 4, 24, 20)}),
    "channel_shuffle": ("return F.channel_shuffle(x, 2)", "pass", {"x": floats(5, 6, 21, 20)}),
    "pixel_unshuffle": ("return F.pixel_unshuffle(x, 3)", "pass", {"x": floats(5, 8, 18, 18)}),
    "pixel_shuffle": ("return F.pixel_shuffle(x, 3)", "pass", {"x": floats(5, 18, 7, 8)}),
    "upsample": ("return F.interpolate(x, scale_factor=2, mode='bilinear')", "pass", {"x": floats(1, 3, 5, 5)}),
}
NAMES = tuple(_EXAMPLES)


def example(name: str) -> Task:
    """The task of that name."""
    forward, setup, inputs = _EXAMPLES[name]
    source = _TEMPLATE.format(forward=forward, setup=setup, arguments=", ".join(inputs))
    return task_of(source, *(InputSpec(argument, *rest) for argument, rest in inputs.items()), name=name)


def task_of(source: str, *inputs: InputSpec, name: str = "example") -> Task:
    """A task around a source; nothing in it but the source and the inputs matters to tracing."""
    provenance = Provenance("test", "", "", "", "", "MIT")
    kinds = SourceKind.MINED, name, source, (), OperatorFamily.OTHER, 1
    return Task(f"task-{name}", *kinds, inputs, provenance, "train", (), "")


@cache
def traces_of(name: str) -> tuple[Trace, ...]:
    """The traces of an example, made in this process."""
    task = example(name)
    found = trace_reference(task.reference, [dataclasses.asdict(spec) for spec in task.inputs], 7, 2)
    return tuple(restore(Trace, trace) for trace in found["traces"])
