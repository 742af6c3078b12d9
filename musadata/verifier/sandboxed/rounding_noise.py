"""Inside the sandbox: how far an honest program in single precision is from the oracle, typically.

Each operator of the oracle gets the rounding error that kernels may make there: one unit for arithmetic, several for
what has intrinsics of its own, and for sums that of adding one value after the other. The errors then go the way of the
values, so that a small branch has small ones, and one whose parts cancel has large ones: what normalises is taken apart
for that. A program whose results are further away nearly everywhere does something else, be it by little: it leaves out
a term, or takes another constant.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

from musadata.dispatch import DispatchMode

UNIT = torch.finfo(torch.float32).eps / 2
_LEAST_UNITS = 3.0  # of the typical element, whatever the operators
NOISE_FACTOR, _REFERENCE_FACTOR = 4.0, 8.0
_INTRINSIC_UNITS = 8.0
_FEW = 64  # elements from which something is typical
# Operators that move values, or choose among them; those of whatever is not named here are noisier.
_MOVING = (
    "clone", "copy", "_to_copy", "cat", "stack", "index", "gather", "where", "masked_fill", "relu", "leaky_relu",
    "maximum", "minimum", "max", "min", "amax", "amin", "clamp", "clamp_min", "clamp_max", "hardtanh", "abs", "neg",
    "fill", "zero", "zeros", "ones", "full", "empty", "arange", "linspace", "scalar_tensor", "constant_pad_nd",
    "embedding", "tril", "triu", "sort", "topk", "max_pool2d_with_indices", "empty_like", "zeros_like", "ones_like",
)  # fmt: skip
_STEPS = frozenset(("round", "floor", "ceil", "trunc", "frac", "sign", "sgn", "heaviside", "remainder", "fmod"))
HALF_TYPES = (torch.float16, torch.bfloat16)
_DISTURBED = (torch.float64, *HALF_TYPES)
_ARITHMETIC = frozenset(("add", "sub", "rsub", "mul", "div", "addcmul", "addcdiv", "reciprocal", "sqrt", "lerp"))


class Noise(DispatchMode):
    """Disturbs what operators give in double precision by `amount` times their rounding error in single precision, but
    what single precision holds exactly, such as sums of round numbers; and what they give in a half type by one
    rounding. `has_steps`: an operator was seen whose result jumps, such as a comparison."""

    def __init__(self, seed: int, amount: float = 1.0) -> None:
        super().__init__()
        self._seed, self._amount = seed, amount
        self._draws: dict[torch.device, torch.Generator] = {}
        self.has_steps = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__.removesuffix("_")  # the same in place
        given = [one for one in args if isinstance(one, torch.Tensor)]
        made = result if isinstance(result, (tuple, list)) else (result,)
        if any(one.is_floating_point() for one in given):
            whole = any(isinstance(one, torch.Tensor) and not one.is_floating_point() for one in made)
            self.has_steps |= name in _STEPS or whole
        if func.is_view or name in _MOVING:
            return result
        if name in _NORMS and result[0].dtype is torch.float64:
            with self:
                result[0].copy_(_NORMS[name](*args))
            made = result[1:]
        for one in made:
            if isinstance(one, torch.Tensor) and one.dtype in _DISTURBED and one.numel():
                self._disturb(one, name, given, args[1:])
        return result

    def _disturb(self, result: torch.Tensor, name: str, given: list[torch.Tensor], others: Any) -> None:
        if result.device not in self._draws:
            self._draws[result.device] = torch.Generator(result.device).manual_seed(self._seed)
        draws = self._draws[result.device]
        noise = torch.rand(result.shape, generator=draws, dtype=torch.float64, device=result.device)
        noise -= 0.5
        noise += noise.sign() * 0.75  # none is without error by chance
        if result.dtype in HALF_TYPES:  # one that is rounded the other way is off by a unit in the last place
            noise *= math.copysign(torch.finfo(result.dtype).eps, self._amount)
            result.copy_(result.double() * (1.0 + noise))
            return
        noise *= self._amount * UNIT
        if name in ("sum", "mean"):
            result.add_(noise * _sum_error(result, name, given[0], others))
            return
        noise = torch.where(result == result.float(), 0.0, noise)
        if name in _ARITHMETIC:
            result.mul_(1.0 + noise)
            return
        size = result.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()
        units = _INTRINSIC_UNITS + math.sqrt(_summed(result, given))
        result.add_(units * noise * (result.abs() + size).nan_to_num(0.0, 0.0, 0.0))


def _sum_error(result: torch.Tensor, name: str, values: torch.Tensor, others: Any) -> torch.Tensor:
    """The error of adding values in their order, in units: each partial sum is rounded, of equal values the same way
    again and again. Where values rise, or come in clusters, partial sums are far larger than the result."""
    over = others[0] if others and isinstance(others[0], (list, tuple)) else ()
    dims = sorted({one % values.dim() for one in over}) or list(range(values.dim()))
    rows = values.double().movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims))
    partial = rows.cumsum(-1)
    partial.masked_fill_(partial == partial.float(), 0.0).nan_to_num_(0.0, 0.0, 0.0)
    in_one_way = torch.where((rows == rows[..., :1]).all(-1), partial.abs().sum(-1) / 2.0, 0.0)
    error = torch.maximum(in_one_way, partial.square_().sum(-1).div(3.0).sqrt()).reshape(result.shape)
    if name == "sum":
        return error
    rounded = (error > 0) | (result != result.float())
    return error / rows.shape[-1] + torch.where(rounded, result, 0.0).abs().nan_to_num(0.0, 0.0, 0.0)


def _standardise(rows: torch.Tensor, eps: float) -> torch.Tensor:
    """In two passes. Where a row is nearly constant, little is left but the rounding error of its mean."""
    centred = rows - rows.mean([1], True)
    return centred * ((centred * centred).mean([1], True) + eps).rsqrt()


def _affine(values: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    values = values if weight is None else values * weight
    return values if bias is None else values + bias


def _layer_norm(values: torch.Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> torch.Tensor:
    found = _standardise(values.reshape(-1, math.prod(shape)), eps)
    return _affine(found.reshape(values.shape), weight, bias)


def _group_norm(
    values: torch.Tensor, weight: Any, bias: Any, batch: int, channels: int, _: int, groups: int, eps: float
) -> torch.Tensor:
    found = _standardise(values.reshape(batch * groups, -1), eps)
    return _affine(found.reshape(batch, channels, -1).mT, weight, bias).mT.reshape(values.shape)


def _batch_norm(
    values: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, _: float, eps: float
) -> torch.Tensor:
    last = values.movedim(1, -1)
    if training:
        found = _standardise(last.reshape(-1, last.shape[-1]).mT, eps).mT.reshape(last.shape)
    else:
        found = (last - mean) * (variance + eps).rsqrt()
    return _affine(found, weight, bias).movedim(-1, 1)


# What is taken apart, since the difference to a mean cancels.
_NORMS: dict[str, Callable[..., torch.Tensor]] = {
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
    "native_batch_norm": _batch_norm,
    "cudnn_batch_norm": _batch_norm,
}


def _summed(result: torch.Tensor, given: list[torch.Tensor]) -> float:
    """How many values one of a result may be the sum of."""
    return max([1.0, *(max(one.numel() / result.numel(), *one.shape, 1.0) for one in given)])


def measure_typical(
    run: Callable[[], list[torch.Tensor]], references: list[torch.Tensor], oracle: list[torch.Tensor], seed: int
) -> list[float]:
    """Per output the most that the typical error of a program may be, in units of float32; 0 where nothing can be said.
    `run`: the oracle once more."""
    try:
        with Noise(seed):
            noisy = run()
        return [_allow(*each) for each in zip(noisy, references, oracle, strict=True)]
    except Exception:  # whatever the reference raises under a mode, or another number of results
        return [0.0] * len(oracle)


def _allow(noisy: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor) -> float:
    if reference.dtype is not torch.float32 or noisy.shape != truth.shape:
        return 0.0
    finite = torch.isfinite(truth) & torch.isfinite(reference) & torch.isfinite(noisy)
    errors = [typical_units((one[finite].double() - truth[finite]).abs(), truth[finite]) for one in (noisy, reference)]
    if min(errors) < 0.0:
        return 0.0
    return max(_LEAST_UNITS, NOISE_FACTOR * errors[0], _REFERENCE_FACTOR * errors[1])


def typical_units(errors: torch.Tensor, truth: torch.Tensor) -> float:
    """The median error relative to the element and to all elements, in units; -1 if there are few."""
    telling = (truth != 0) | (errors != 0)
    if int(telling.sum()) < _FEW:
        return -1.0
    size = truth.square().mean().sqrt()
    return float((errors[telling] / (truth[telling].abs() + size)).median()) / UNIT
