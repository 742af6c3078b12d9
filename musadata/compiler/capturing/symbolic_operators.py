"""Operators whose windows, strides, paddings or groups are symbols: PyTorch's own take numbers only.

They have the names and arguments of aten's, so that the lowering has one rule for both. Runs inside the sandbox.
Importing this module registers the operators; they are only traced, never executed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch


def _repeated(value: Any, rank: int) -> list[Any]:
    items = list(value) if isinstance(value, (tuple, list)) else [value]
    return items * rank if len(items) == 1 else items


def _has_symbols(values: Sequence[Any]) -> bool:
    items = [item for value in values for item in (value if isinstance(value, (tuple, list)) else (value,))]
    return any(isinstance(item, torch.SymInt) for item in items)


def _windows(size: Any, kernel: Any, stride: Any, padding: Any = 0, dilation: Any = 1) -> Any:
    """How many windows fit."""
    torch._check(kernel > 0)
    torch._check(stride > 0)
    torch._check(dilation > 0)
    torch._check(padding >= 0)
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    torch._check(room >= 0)
    return room // stride + 1


def _pooled(input: torch.Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any = 1) -> torch.Tensor:
    rank = len(kernel)
    dilation = _repeated(dilation, rank)
    for size, pad in zip(kernel, padding, strict=True):
        torch._check(2 * pad <= size)
    counts = map(_windows, input.shape[-rank:], kernel, stride, padding, dilation)
    return input.new_empty([*input.shape[:-rank], *counts])


def register(name: str, schema: str, fake: Callable[..., torch.Tensor]) -> Any:
    """An operator that is only traced, by what it makes of fake tensors."""
    torch.library.define(f"musadata::{name}", schema)
    torch.library.register_fake(f"musadata::{name}", fake)
    return getattr(torch.ops.musadata, name)


def _max_pool(input: torch.Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any) -> torch.Tensor:
    return _pooled(input, kernel_size, stride, padding, dilation)


def _avg_pool(
    self: torch.Tensor, kernel_size: Any, stride: Any, padding: Any, count_include_pad: bool, divisor_override: Any
) -> torch.Tensor:
    return _pooled(self, kernel_size, stride, padding)


def _adaptive_max_pool(input: torch.Tensor, output_size: Any) -> torch.Tensor:
    for size in output_size:
        torch._check(size > 0)
    return input.new_empty([*input.shape[: -len(output_size)], *output_size])


def _im2col(self: torch.Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> torch.Tensor:
    rows, cols = map(_windows, self.shape[-2:], kernel_size, stride, padding, dilation)
    return self.new_empty([*self.shape[:-3], self.shape[-3] * kernel_size[0] * kernel_size[1], rows * cols])


def _group_norm(input: torch.Tensor, weight: Any, bias: Any, group: Any, eps: float) -> torch.Tensor:
    torch._check(input.shape[1] % group == 0)
    return torch.empty_like(input)


_POOL = "(Tensor input, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding, SymInt[] dilation) -> Tensor"
_AVERAGE = (
    "(Tensor self, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding, bool count_include_pad, "
    "SymInt? divisor_override) -> Tensor"
)
_COLUMNS = "(Tensor self, SymInt[] kernel_size, SymInt[] dilation, SymInt[] padding, SymInt[] stride) -> Tensor"
_MAX = {rank: register(f"max_pool{rank}d", _POOL, _max_pool) for rank in (2, 3)}
_AVG = {rank: register(f"avg_pool{rank}d", _AVERAGE, _avg_pool) for rank in (1, 2, 3)}
_ADAPTIVE = {
    rank: register(f"adaptive_max{rank}d", "(Tensor input, SymInt[] output_size) -> Tensor", _adaptive_max_pool)
    for rank in (1, 2, 3)
}
_GROUPS = "(Tensor input, Tensor? weight, Tensor? bias, SymInt group, float eps) -> Tensor"
_UNFOLD = register("im2col", _COLUMNS, _im2col)


_NORM = register("group_norm", _GROUPS, _group_norm)


def max_pool(rank: int) -> Callable[..., torch.Tensor]:
    known = getattr(torch, f"max_pool{rank}d")

    def call(
        input: torch.Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> torch.Tensor:
        step = kernel_size if stride is None or stride == [] else stride
        given = [_repeated(value, rank) for value in (kernel_size, step, padding, dilation)]
        if ceil_mode or not _has_symbols(given):
            return known(input, kernel_size, step, padding, dilation, ceil_mode)
        return _MAX[rank](input, *given)

    return call


def avg_pool(rank: int) -> Callable[..., torch.Tensor]:
    known = getattr(torch.nn.functional, f"avg_pool{rank}d")

    def call(
        input: torch.Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> torch.Tensor:
        step = kernel_size if stride is None or stride == [] else stride
        given = [_repeated(value, rank) for value in (kernel_size, step, padding)]
        if ceil_mode or not _has_symbols(given):
            more = () if rank == 1 else (divisor_override,)
            return known(input, kernel_size, step, padding, ceil_mode, count_include_pad, *more)
        return _AVG[rank](input, *given, count_include_pad, divisor_override)

    return call


def adaptive_max_pool(rank: int, known: Callable[..., Any]) -> Callable[..., Any]:
    """With None in place of the positions of the maxima where sizes are symbols."""

    def call(input: torch.Tensor, output_size: Any) -> Any:
        sizes = _repeated(output_size, rank)
        return (_ADAPTIVE[rank](input, sizes), None) if _has_symbols(sizes) else known(input, output_size)

    return call


def im2col(known: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def call(input: torch.Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> torch.Tensor:
        given = [_repeated(value, 2) for value in (kernel_size, dilation, padding, stride)]
        return _UNFOLD(input, *given) if _has_symbols(given) else known(input, *given)

    return call


def group_norm(known: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def call(
        input: torch.Tensor, num_groups: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *more: Any
    ) -> torch.Tensor:
        symbolic = isinstance(num_groups, torch.SymInt)
        return _NORM(input, weight, bias, num_groups, eps) if symbolic else known(input, num_groups, weight, bias, eps)

    return call


SYMBOLIC_REPLACEMENTS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    *((torch, f"max_pool{rank}d", max_pool(rank)) for rank in (2, 3)),
    *((torch.nn.functional, f"avg_pool{rank}d", avg_pool(rank)) for rank in (1, 2, 3)),
    (torch, "adaptive_max_pool1d", adaptive_max_pool(1, torch.adaptive_max_pool1d)),
    *(
        (torch._C._nn, name, adaptive_max_pool(rank, getattr(torch._C._nn, name)))
        for rank, name in ((2, "adaptive_max_pool2d"), (3, "adaptive_max_pool3d"))
    ),
    (torch, "group_norm", group_norm(torch.group_norm)),
    (torch._C._nn, "im2col", im2col(torch._C._nn.im2col)),
)
