"""How the values of an input set are changed, so that a shortcut that holds for the usual ones shows.

A ReLU that returns its input survives positive values, a variance as E[x²] − E[x]² survives values around zero, and
all zeros survive small ones; see `reference/hacks.md` of the design notes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from musadata.records import InputSpec

if TYPE_CHECKING:
    import torch

PLAIN, SCALED, SMALL, OFFSET, INFINITE = "plain", "scaled by -3", "scaled by 0.01", "offset", "partly infinite"
# exp() of large values overflows, so that a softmax without its maximum shows; far from zero also one with a rounded
# maximum. The latter is only for functions that ignore a shift of all inputs: they must cancel it.
LARGE, FAR = "large", "large and far from zero"
SHIFTED = "shifted by one"  # never judged: tells which functions those are
_ORDERS = ((PLAIN, SCALED, OFFSET, SMALL), (PLAIN, SMALL, OFFSET, SCALED))
_LARGE = {"float64": 1000.0, "float32": 100.0, "float16": 30.0, "bfloat16": 100.0}
_OFFSETS = {"float64": 100.0, "float32": 100.0, "float16": 8.0, "bfloat16": 8.0}


@dataclass(frozen=True)
class InputSet:
    """One draw of inputs: which set of shapes, which variant, which seed."""

    shape: int
    variant: str
    seed: int


def plan_variants(shape: int, count: int) -> list[str]:
    """The variants of `count` input sets for the set of shapes with this index; the first is plain."""
    order = _ORDERS[shape % len(_ORDERS)]
    return [order[index % len(order)] for index in range(count)]


def can_be_large(specs: Sequence[InputSpec]) -> bool:
    """Whether any input has values without bounds."""
    return any(spec.kind == "normal" and spec.dtype in _LARGE for spec in specs)


def apply_variant(specs: Sequence[InputSpec], values: Sequence[Any], variant: str) -> list[Any]:
    """The values changed within what their specs allow: integers stay, ranges are kept."""
    return [_change(spec, value, variant) for spec, value in zip(specs, values, strict=True)]


def _change(spec: InputSpec, value: Any, variant: str) -> Any:
    if variant == INFINITE:
        return _with_infinities(value) if spec.kind == "normal" and value.dtype.is_floating_point else value
    if variant == PLAIN or spec.kind not in ("normal", "uniform") or not value.dtype.is_floating_point:
        return value
    if spec.kind == "uniform" and variant in (LARGE, FAR, SHIFTED):
        return value
    if spec.kind == "uniform":
        return _within_range(spec, value, variant).to(value.dtype)
    changes = {
        SCALED: lambda: value * -3.0,
        SMALL: lambda: value * 0.01,
        OFFSET: lambda: value + _OFFSETS[spec.dtype],
        LARGE: lambda: value * _LARGE[spec.dtype],
        FAR: lambda: value * 3e3 + 1e5 if value.element_size() > 2 else value * _LARGE[spec.dtype],
        SHIFTED: lambda: value + 1.0,
    }
    changed: torch.Tensor = changes[variant]()
    return changed


def _with_infinities(value: "torch.Tensor") -> "torch.Tensor":
    """One element in the first third becomes +inf, one in the last third -inf."""
    changed = value.clone()
    flat = changed.view(-1)
    if flat.numel() >= 8:
        flat[flat.numel() // 3] = float("inf")
        flat[flat.numel() - flat.numel() // 4] = float("-inf")
    return changed


def _within_range(spec: InputSpec, value: "torch.Tensor", variant: str) -> "torch.Tensor":
    wide = value.double()
    if variant == SCALED:
        moved = spec.high - (wide - spec.low)  # mirrored
    elif variant == OFFSET:
        moved = spec.high - (spec.high - wide) * 0.25
    elif spec.low < 0 < spec.high:
        moved = wide * 0.01
    else:
        moved = spec.low + (wide - spec.low) * 0.25
    moved[moved >= spec.high] = spec.low
    return moved.clamp(min=spec.low)
