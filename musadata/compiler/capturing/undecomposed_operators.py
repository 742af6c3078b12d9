"""Custom operators for functions whose decomposition in PyTorch depends on sizes or is hard to read.

Runs inside the sandbox. Importing this module registers the operators. Inside of `undecomposed_operators()`, PyTorch's
functions are replaced by calls of these operators, under the names by which modules look them up.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from musadata.compiler.capturing.recurrent_operators import RECURRENT_REPLACEMENTS
from musadata.compiler.capturing.resizing_operators import RESIZING_REPLACEMENTS
from musadata.compiler.capturing.symbolic_operators import SYMBOLIC_REPLACEMENTS
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.operators import column

_linear = torch.nn.functional.linear
_pad = torch._C._nn.pad
_attention = torch.nn.functional.scaled_dot_product_attention
_entropy = torch.binary_cross_entropy_with_logits


@torch.library.custom_op("musadata::linear", mutates_args=())
def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    return _linear(input, weight, bias).clone()


linear.register_fake(lambda input, weight, *_: input.new_empty([*input.shape[:-1], *weight.shape[:-1]]))


@torch.library.custom_op("musadata::scaled_dot_product_attention", mutates_args=())
def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> torch.Tensor:
    options = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    return _attention(query, key, value, attn_mask, **options).clone()  # type: ignore[arg-type]


@scaled_dot_product_attention.register_fake
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any) -> torch.Tensor:
    torch._check(key.shape[-2] == value.shape[-2])
    torch._check(query.shape[-1] == key.shape[-1])
    return query.new_empty([*query.shape[:-1], value.shape[-1]])


@torch.library.custom_op("musadata::circular_pad", mutates_args=())
def circular_pad(input: torch.Tensor, padding: list[int]) -> torch.Tensor:
    return _pad(input, padding, "circular").clone()


@circular_pad.register_fake
def _(input: torch.Tensor, padding: list[int]) -> torch.Tensor:
    shape = list(input.shape)
    for place in range(len(padding) // 2):
        shape[-1 - place] += padding[2 * place] + padding[2 * place + 1]
    return input.new_empty(shape)


@torch.library.custom_op("musadata::binary_cross_entropy_with_logits", mutates_args=())
def binary_cross_entropy_with_logits(
    self: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    pos_weight: torch.Tensor | None = None,
    reduction: int = 1,
) -> torch.Tensor:
    """PyTorch takes it apart into a logarithm of a sum, which loses what is small beside 1."""
    return _entropy(self, target, weight, pos_weight, reduction).clone()


binary_cross_entropy_with_logits.register_fake(
    lambda self, target, weight=None, pos_weight=None, reduction=1: self.new_empty([] if reduction else self.shape)
)


def _undecomposed_pad(
    input: torch.Tensor, pad: Any, mode: str = "constant", value: float | None = None
) -> torch.Tensor:
    if mode == "circular":
        return torch.ops.musadata.circular_pad(input, list(pad))
    return _pad(input, pad, mode, value)


def _undecomposed_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Attention as one operator, unless it is random or its batches are of different shapes."""
    given = (attn_mask, dropout_p, is_causal)
    ranks = {query.dim(), key.dim(), value.dim(), max(query.dim(), attn_mask.dim() if attn_mask is not None else 0)}
    leading = query.dim() - (3 if enable_gqa else 2)
    plain = all(query.size(d) == key.size(d) and query.size(d) == value.size(d) for d in range(leading))
    if dropout_p > 0 or len(ranks) > 1 or not plain:
        return _attention(query, key, value, *given, scale=scale, enable_gqa=enable_gqa)
    return torch.ops.musadata.scaled_dot_product_attention(query, key, value, attn_mask, is_causal, scale, enable_gqa)


def _max_pool1d(
    input: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> torch.Tensor:
    """One-dimensional pooling as pooling of an image of one row; PyTorch's own makes sizes constants while tracing."""

    def last(value: Any) -> Any:
        return value[0] if isinstance(value, (tuple, list)) else value

    kernel = last(kernel_size)
    step = kernel if stride is None or stride == [] else last(stride)
    image = input.unsqueeze(-2)
    pooled = torch.max_pool2d(image, (1, kernel), (1, step), (0, last(padding)), (1, last(dilation)), ceil_mode)
    return pooled.squeeze(-2)


def _adaptive_avg_pool1d(input: torch.Tensor, output_size: Any) -> torch.Tensor:
    """As PyTorch's own, which makes sizes constants while tracing."""
    size = output_size[0] if isinstance(output_size, (tuple, list)) else output_size
    return torch._C._nn.adaptive_avg_pool2d(input.unsqueeze(-2), (1, size)).squeeze(-2)


def _rrelu(input: torch.Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> torch.Tensor:
    """Slopes are random only in training mode, which references do not run in. The bounds stay numbers of the graph."""
    assert not training
    slope = (torch.full_like(input, lower) + upper) / 2
    return torch.where(input < 0, input * slope, input)


def _embedding_bag(
    input: torch.Tensor,
    weight: torch.Tensor,
    offsets: torch.Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> torch.Tensor:
    """Bags of equal size as a reduction over rows of the table; PyTorch's own goes through offsets."""
    if input.dim() != 2 or max_norm is not None or padding_idx is not None:
        raise Unsupported("bags of embeddings of different sizes")
    rows = torch.nn.functional.embedding(input, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    reduced: dict[str, Callable[[int], torch.Tensor]] = {"sum": rows.sum, "mean": rows.mean, "max": rows.amax}
    return reduced[mode](1)


def _gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """Without the check for negative variances: a kernel cannot raise."""
    variance = torch.full_like(input, var) if isinstance(var, float) else var
    if variance.dim() == input.dim() - 1:
        variance = variance.unsqueeze(-1)
    variance = variance.clamp(min=eps)
    loss = 0.5 * (torch.log(variance) + (input - target) ** 2 / variance)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    reduced: dict[str, Callable[[], torch.Tensor]] = {"none": loss.clone, "mean": loss.mean, "sum": loss.sum}
    return reduced[reduction]()


_REPLACEMENTS: tuple[tuple[Any, str, Callable[..., torch.Tensor]], ...] = (
    (torch.nn.functional, "linear", linear),
    (torch._C._nn, "linear", linear),
    (torch._C._nn, "pad", _undecomposed_pad),
    (torch.nn.functional, "scaled_dot_product_attention", _undecomposed_attention),
    (torch._C._nn, "scaled_dot_product_attention", _undecomposed_attention),
    (torch, "binary_cross_entropy_with_logits", binary_cross_entropy_with_logits),
    (torch, "rrelu", _rrelu),
    (torch.nn.functional, "embedding_bag", _embedding_bag),
    (torch.nn.functional, "gaussian_nll_loss", _gaussian_nll_loss),
    (torch, "max_pool1d", _max_pool1d),
    (torch.nn.functional, "adaptive_avg_pool1d", _adaptive_avg_pool1d),
    *SYMBOLIC_REPLACEMENTS,
    *RECURRENT_REPLACEMENTS,
    *RESIZING_REPLACEMENTS,
)


# Names of core aten's operators that are not decomposed.
UNDECOMPOSED = frozenset(column("whole"))
_AUTOGRAD = torch._C.DispatchKey.Autograd


@contextmanager
def undecomposed_operators() -> Iterator[None]:
    """Replaces PyTorch's functions while it is entered; references must be loaded inside of it too."""
    with _without_python_kernels():
        yield from _replacing_functions()


@contextmanager
def _without_python_kernels() -> Iterator[None]:
    """Some operators have a decomposition as their kernel for autograd, which acts before any table of decompositions
    is asked."""
    packets = [getattr(torch.ops.aten, name) for name in sorted(UNDECOMPOSED)]
    operators = [getattr(packet, overload) for packet in packets for overload in packet.overloads()]
    kernels = {one: one.py_kernels.pop(_AUTOGRAD) for one in operators if _AUTOGRAD in one.py_kernels}
    for operator in kernels:
        operator._dispatch_cache.clear()
    try:
        yield
    finally:
        for operator, kernel in kernels.items():
            operator.py_kernels[_AUTOGRAD] = kernel
            operator._dispatch_cache.clear()


def _replacing_functions() -> Iterator[None]:
    replaced = [(owner, name, getattr(owner, name)) for owner, name, _ in _REPLACEMENTS]
    try:
        for owner, name, function in _REPLACEMENTS:
            setattr(owner, name, function)
        yield
    finally:
        for owner, name, function in replaced:
            setattr(owner, name, function)
