"""Guessing from a few drawn values how to draw fresh ones: the `InputSpec` of each argument of `forward`."""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import torch

from musadata.tasks.reference import Unfit

_LITERALS = (int, float, bool, str, type(None), torch.dtype)


def infer_specs(model: torch.nn.Module, draws: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """One spec, as plain values, per argument, from the values of several calls of `get_inputs`.

    Raises:
        Unfit: the calls disagree about shapes or dtypes, or an argument is neither a tensor nor a literal.
    """
    if any(len(draw) != len(draws[0]) for draw in draws):
        raise Unfit("inputs_vary", "get_inputs returns lists of different lengths")
    names = _argument_names(model, len(draws[0]))
    return [_infer(name, [draw[index] for draw in draws]) for index, name in enumerate(names)]


def _argument_names(model: torch.nn.Module, count: int) -> list[str]:
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return [f"argument{index}" for index in range(count)]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in positional]
    return [names[index] if index < len(names) else f"argument{index}" for index in range(count)]


def _infer(name: str, values: list[Any]) -> dict[str, Any]:
    first = values[0]
    if not isinstance(first, torch.Tensor):
        return _literal(name, values)
    if any(not isinstance(value, torch.Tensor) or value.shape != first.shape for value in values):
        raise Unfit("inputs_vary", f"{name} changes its shape")
    if first.layout != torch.strided or first.is_quantized or first.device.type != "cpu":
        raise Unfit("unsupported_input", f"{name} is not a dense CPU tensor")
    kind, low, high = _distribution(torch.stack([value.detach() for value in values]))
    dtype = str(first.dtype).removeprefix("torch.")
    return {"name": name, "kind": kind, "dtype": dtype, "shape": list(first.shape), "low": low, "high": high}


def _literal(name: str, values: list[Any]) -> dict[str, Any]:
    first = values[0]
    plain = isinstance(first, _LITERALS) or (
        isinstance(first, (tuple, list)) and all(isinstance(item, _LITERALS[:5]) for item in first)
    )
    if not plain:
        raise Unfit("unsupported_input", f"{name} is a {type(first).__name__}")
    if any(repr(value) != repr(first) for value in values):
        raise Unfit("inputs_vary", f"{name} changes")
    return {"name": name, "kind": "literal", "dtype": "", "shape": [], "literal": repr(first)}


def _distribution(values: torch.Tensor) -> tuple[str, float, float]:
    if values.dtype == torch.bool:
        return "bool", 0.0, 0.0
    if values.numel() == 0:
        raise Unfit("empty_input")
    if not values.is_floating_point() and not values.is_complex():
        return "integers", float(values.min()), float(values.max()) + 1.0
    if values.is_complex():
        return "normal", 0.0, 0.0
    sample = values.flatten()[:: max(1, values.numel() // 65536)].double()
    low, high = float(sample.min()), float(sample.max())
    if not math.isfinite(low + high):
        raise Unfit("unsupported_input", "get_inputs draws values that are not finite")
    if low == high:
        return "uniform", low, low + max(1.0, abs(low)) * 1e-6  # a constant, in the words of a half-open range
    return ("normal", 0.0, 0.0) if _looks_normal(sample, low, high) else ("uniform", *_round_outwards(low, high))


def _looks_normal(sample: torch.Tensor, low: float, high: float) -> bool:
    """Mean near 0, deviation near 1, and either tails or too few values to tell."""
    deviation = float(sample.std())
    if not (abs(float(sample.mean())) < 0.5 and 0.5 < deviation < 2.0):
        return len(sample) < 8 and low < 0.0
    kurtosis = float(((sample - sample.mean()) / deviation).pow(4).mean())
    return low < 0.0 and kurtosis > 2.2  # 3 for a normal, 1.8 for a uniform distribution


def _round_outwards(low: float, high: float) -> tuple[float, float]:
    """Bounds at the next whole number where that widens the range by a tenth at most: 0.0003-0.9998 is 0-1."""
    slack = 0.1 * (high - low)
    nice_low = float(math.floor(low)) if low - math.floor(low) <= slack else low
    nice_high = float(math.ceil(high)) if math.ceil(high) - high <= slack else high
    return nice_low, max(nice_high, math.nextafter(high, math.inf)) if nice_high == high else nice_high
