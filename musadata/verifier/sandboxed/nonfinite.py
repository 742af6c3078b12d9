"""Inside the sandbox: where a correct kernel may give a finite number although the reference gives NaN or infinity."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from musadata.dispatch import DispatchMode

# Operators that select among values. A kernel's fmaxf(x, 0) or x > 0 ? x : 0 ignores NaN where PyTorch returns it.
_CHOOSING = frozenset({
    "relu", "relu6", "clamp", "clamp_min", "clamp_max", "hardtanh", "hardsigmoid", "threshold", "leaky_relu", "elu",
    "_prelu_kernel", "hardshrink", "softshrink", "maximum", "minimum", "max", "min", "amax", "amin", "aminmax",
    "cummax", "cummin", "max_pool1d", "max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "multi_margin_loss", "multilabel_margin_loss_forward",
})  # fmt: skip

Results = Callable[[list[Any]], list[torch.Tensor]]


def relax(
    run: Results, values: list[Any], plain: list[Any], leaves: Sequence[torch.Tensor], oracle: Sequence[torch.Tensor]
) -> None:
    """Set `oracle` to 0, in place, where the result is not finite but a correct kernel's result may be finite.

    `run` gives the reference's results. `values` hold infinities and `plain` does not; `leaves` are the results for
    `values`.
    """
    for may_be_number in (_masked(run, values, plain, leaves), _without_nans(run, values, leaves)):
        for truth, chosen in zip(oracle, may_be_number, strict=True):
            if chosen is not None:
                truth[chosen] = 0.0


def _masked(
    run: Results, values: list[Any], plain: list[Any], leaves: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """NaNs where the result does not depend on the values that replace infinite inputs: a kernel may skip masked
    elements instead of multiplying them by 0."""
    moved = [
        torch.where(value.isinf(), 2.0 * usual + 1.0, usual) if _is_float(value) else value
        for value, usual in zip(values, plain, strict=True)
    ]
    return [
        leaf.isnan() & (one == other) if _is_float(leaf) and leaf.shape == one.shape == other.shape else None
        for leaf, one, other in zip(leaves, run(plain), run(moved), strict=True)
    ]


def _without_nans(run: Results, values: list[Any], leaves: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """Where the result is finite if maxima, minima and clamps ignore NaNs, as those of C and IEEE 754 do."""
    with _NansLeftOut():
        results = run(values)
    return [
        ~leaf.isfinite() & other.isfinite() if _is_float(leaf) and leaf.shape == other.shape else None
        for leaf, other in zip(leaves, results, strict=True)
    ]


class _NansLeftOut(DispatchMode):
    """Gives operators that select among values zeros instead of NaNs."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name.removesuffix("_") in _CHOOSING:
            replace = _zero_in_place if name.endswith("_") else _with_zeros
            args = tree_map_only(torch.Tensor, replace, args)
        return func(*args, **(kwargs or {}))


def _with_zeros(value: torch.Tensor) -> torch.Tensor:
    return value.nan_to_num(0.0, math.inf, -math.inf) if _is_float(value) else value


def _zero_in_place(value: torch.Tensor) -> torch.Tensor:
    return value.nan_to_num_(0.0, math.inf, -math.inf) if _is_float(value) else value


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
