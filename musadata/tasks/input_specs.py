"""Inferring the `InputSpec` of each argument of `forward` from the values of a few draws."""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import torch

from musadata.tasks.checked_reference import Unfit
from musadata.tasks.matrix_structure import find_structure
from musadata.tasks.normal_values import bounds, fit_normal

_FEW = 8  # more values than these are a range
_MANY = 64  # as many integers may be a choice, if they are no range: classes, and one that stands for none
_SEEN_EACH = 6  # times each value must occur on average before the set counts as complete
_ORDERED = 4  # fewer integers may be in order by chance
_LITERALS = (int, float, bool, str, type(None), torch.dtype)


def infer_specs(
    model: torch.nn.Module, draws: Sequence[Sequence[Any]], made: Sequence[bool] = (), text: str = ""
) -> list[dict[str, Any]]:
    """One spec, as plain values, per argument, from the values of several calls of `get_inputs`. What is `made`, see
    `find_made`, is drawn by the reference itself, whose text this is; but for permutations and values that rise.

    Raises:
        Unfit: the calls disagree about shapes or dtypes, or an argument is neither a tensor nor a literal.
    """
    if any(len(draw) != len(draws[0]) for draw in draws):
        raise Unfit("inputs_vary", "get_inputs returns lists of different lengths")
    names = _argument_names(model, len(draws[0]))
    return [
        _infer(name, [draw[index] for draw in draws], (index, text) if made and made[index] else None)
        for index, name in enumerate(names)
    ]


def own_spec(spec: dict[str, Any], position: int, text: str) -> dict[str, Any]:
    """The spec of an input that `get_inputs` of a reference with this text draws."""
    return {**spec, "kind": "own", "low": float(position), "high": 0.0, "literal": text}


def _argument_names(model: torch.nn.Module, count: int) -> list[str]:
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return [f"argument{index}" for index in range(count)]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in positional]
    return [names[index] if index < len(names) else f"argument{index}" for index in range(count)]


def _infer(name: str, values: list[Any], own: tuple[int, str] | None = None) -> dict[str, Any]:
    first = values[0]
    if not isinstance(first, torch.Tensor):
        return _literal(name, values)
    if any(not isinstance(value, torch.Tensor) or value.shape != first.shape for value in values):
        raise Unfit("inputs_vary", f"{name} changes its shape")
    if first.layout != torch.strided or first.is_quantized or first.device.type != "cpu":
        raise Unfit("unsupported_input", f"{name} is not a dense CPU tensor")
    dtype = str(first.dtype).removeprefix("torch.")
    spec = {"name": name, "kind": "choice", "dtype": dtype, "shape": list(first.shape), "low": 0.0, "high": 0.0}
    drawn = torch.stack([value.detach() for value in values])
    is_integer = drawn.dtype != torch.bool and not (drawn.is_floating_point() or drawn.is_complex())
    if own and drawn.numel() and not (is_integer and _order(drawn) != "integers"):
        return own_spec(spec, *own)
    chosen = _choices(drawn)
    if chosen and (drawn.is_floating_point() or _order(drawn) == "integers"):
        return {**spec, "literal": repr(chosen)}
    spec["kind"], spec["low"], spec["high"] = _distribution(drawn)
    structure = _matrix_structure(drawn) if spec["kind"] in ("normal", "uniform") else ""
    return {**spec, "literal": structure} if structure else spec


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


def _choices(drawn: torch.Tensor) -> tuple[float, ...] | None:
    """The few whole numbers that an argument such as a label, a sign or a mask consists of; None if others are
    possible.

    A value between them would match none of them and hide a kernel that treats them wrongly. Integers without gaps are
    a range, of kind `integers`. `drawn`: (draws, *shape).
    """
    if drawn.dtype == torch.bool or drawn.is_complex() or not _are_whole(sample := _sample(drawn)):
        return None
    distinct = sample.unique()
    most = _FEW if drawn.is_floating_point() else _MANY
    if not 2 <= len(distinct) <= min(most, drawn[0].numel() // 2) or drawn.numel() < _SEEN_EACH * len(distinct):
        return None
    without_gaps = float(distinct[-1] - distinct[0]) == len(distinct) - 1
    if (without_gaps and not drawn.is_floating_point()) or not bool(torch.isin(drawn, distinct.to(drawn.dtype)).all()):
        return None
    return tuple(value if drawn.is_floating_point() else int(value) for value in distinct.tolist())


def _matrix_structure(drawn: torch.Tensor) -> str:
    """The structure of all drawn matrices: kernels may skip the zeros of triangular ones, or half of symmetric ones.

    `drawn`: (draws, *shape).
    """
    square = drawn.dim() >= 3 and drawn.shape[-1] == drawn.shape[-2] >= _ORDERED
    constant = bool((drawn == drawn.flatten()[0]).all())
    return find_structure(drawn) if square and not constant else ""


def _sample(values: torch.Tensor) -> torch.Tensor:
    """At most 128 Ki of them, in float64."""
    return values.flatten()[:: max(1, values.numel() // 65536)].double()


def _are_whole(sample: torch.Tensor) -> bool:
    return bool((torch.isfinite(sample) & (sample == sample.round())).all())


def _distribution(values: torch.Tensor) -> tuple[str, float, float]:
    if values.dtype == torch.bool:
        return "bool", 0.0, 0.0
    if values.numel() == 0:
        raise Unfit("empty_input")
    if not values.is_floating_point() and not values.is_complex():
        return _order(values), float(values.min()), float(values.max()) + 1.0
    if values.is_complex():
        return "normal", 0.0, 0.0
    sample = _sample(values)
    low, high = float(sample.min()), float(sample.max())
    if not math.isfinite(low + high):
        raise Unfit("unsupported_input", "get_inputs draws values that are not finite")
    if low == high:
        return "uniform", low, low + max(1.0, abs(low)) * 1e-6  # a constant, as a half-open range
    varies = bool((values != values[0]).any())  # typed-in examples do not, and hardly repeat
    if _are_whole(sample) and (varies or len(sample.unique()) <= values[0].numel() // 2):
        return "integers", low, high + 1.0
    fitted = fit_normal(sample)
    return ("normal", *bounds(*fitted)) if fitted else ("uniform", *_round_outwards(low, high))


def _order(drawn: torch.Tensor) -> str:
    """`integers`, or a stronger property that kernels may rely on: `permutation` (each value once), `offsets` or
    `segments` (rising). Consecutive positions are plain integers: a kernel should read them.

    `drawn`: (draws, *shape).
    """
    if drawn.dim() != 2 or drawn.shape[1] < _ORDERED:
        return "integers"
    values = drawn.long()  # differences of bytes are never negative
    ranks = torch.arange(values.shape[1]) + values.min()
    steps = values.diff(dim=1)
    rising = bool((steps >= 0).all()) and bool((steps > 0).any())
    if bool((values.sort(1).values == ranks).all()):
        return "integers" if rising else "permutation"
    if rising:
        return "offsets" if bool((steps > 0).all()) else "segments"
    return "integers"


def _round_outwards(low: float, high: float) -> tuple[float, float]:
    """Bounds at the next whole number where that widens the range by a tenth at most: 0.0003-0.9998 is 0-1."""
    slack = 0.1 * (high - low)
    nice_low = float(math.floor(low)) if low - math.floor(low) <= slack else low
    nice_high = float(math.ceil(high)) if math.ceil(high) - high <= slack else high
    return nice_low, max(nice_high, math.nextafter(high, math.inf)) if nice_high == high else nice_high
