"""Resizing as one operator: PyTorch decomposes it to indices, weights and gathers.

The operators have aten's names, by which kernels are called. Runs inside the sandbox. Importing this module registers
them; they are only traced, never executed.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import torch

from musadata.compiler.capturing.symbolic_operators import register

_LINEAR = ("linear1d", "bilinear2d", "trilinear3d", "bicubic2d")
_LARGEST_DENOMINATOR = 64
_SIZES = "Tensor input, SymInt[]? size, float[]? scale_factors"


def _resized(input: torch.Tensor, size: Any, scale_factors: Any, *_: Any) -> torch.Tensor:
    spatial: Sequence[Any] = size or []
    if size is None:
        spatial = [_scaled(length, factor) for length, factor in zip(input.shape[2:], scale_factors, strict=True)]
    return input.new_empty([*input.shape[:2], *spatial])


def _scaled(length: Any, factor: float) -> Any:
    """A length by a factor, rounded down: by integers where that is exact, as for 1.5."""
    ratio = Fraction(factor)
    exact = ratio.denominator <= _LARGEST_DENOMINATOR
    return length * ratio.numerator // ratio.denominator if exact else int(length * factor)


_NEAREST = register("upsample_nearest", f"({_SIZES}, bool exact) -> Tensor", _resized)
_BETWEEN = {
    kind: register(f"upsample_{kind}", f"({_SIZES}, bool align_corners) -> Tensor", _resized) for kind in _LINEAR
}


def _given(size: Any, scale_factors: Any) -> tuple[list[Any] | None, list[float] | None]:
    scales = None if scale_factors is None else [float(factor) for factor in scale_factors]
    return None if size is None else list(size), scales


def _nearest(exact: bool) -> Callable[..., torch.Tensor]:
    def call(input: torch.Tensor, output_size: Any = None, scale_factors: Any = None, *_: Any) -> torch.Tensor:
        return _NEAREST(input, *_given(output_size, scale_factors), exact)

    return call


def _between(kind: str) -> Callable[..., torch.Tensor]:
    known = getattr(torch._C._nn, f"upsample_{kind}")

    def call(
        input: torch.Tensor, output_size: Any, align_corners: bool, scale_factors: Any = None, *more: Any
    ) -> torch.Tensor:
        if more or not input.is_floating_point() or not isinstance(scale_factors, (list, tuple, type(None))):
            return known(input, output_size, align_corners, scale_factors, *more)
        return _BETWEEN[kind](input, *_given(output_size, scale_factors), align_corners)

    return call


RESIZING_REPLACEMENTS: tuple[tuple[Any, str, Callable[..., torch.Tensor]], ...] = (
    *((torch._C._nn, f"upsample_nearest{rank}d", _nearest(False)) for rank in (1, 2, 3)),
    *((torch._C._nn, f"_upsample_nearest_exact{rank}d", _nearest(True)) for rank in (1, 2, 3)),
    *((torch._C._nn, f"upsample_{kind}", _between(kind)) for kind in _LINEAR),
)
