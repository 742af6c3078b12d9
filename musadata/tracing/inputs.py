"""Fresh values for the arguments of a reference's `forward`, the same on every machine.

Torch's own generators differ between instruction sets, so values are computed here from the raw bits of numpy's PCG64
(whose stream numpy guarantees) with exact arithmetic only. Inputs of kind `own` are the exception: the reference draws
them, mostly with torch's generators.
"""

import ast
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from musadata.records import InputSpec
from musadata.tasks.matrix_structure import with_structure
from musadata.tasks.normal_values import moments
from musadata.tasks.reference_loading import load_reference, set_seed

_AT_ONCE = 8192  # values, whose steps stay in a core's cache: for 65,536 a third of the time of all at once
_NAMED = {"inf": math.inf, "nan": math.nan}


def draw(specs: Sequence[InputSpec], seed: int) -> list[Any]:
    """One fresh value per spec: a CPU tensor, or the Python value of a literal.

    The value of an argument depends on the seed, its position and its own spec alone. The real and the imaginary part
    of complex `normal` values have mean 0 and deviation 1 each.

    Raises:
        ValueError: a spec of unknown kind, an empty range, no choice, or a literal that is not one.
    """
    return [_draw_one(spec, seed, index) for index, spec in enumerate(specs)]


def _draw_one(spec: InputSpec, seed: int, index: int) -> Any:
    if spec.kind == "literal":
        return parse_literal(spec.literal)
    if spec.kind == "own":
        return draw_own(spec, seed)
    if spec.kind not in _KINDS:
        raise ValueError(f"input {spec.name!r} has the unknown kind {spec.kind!r}")
    dtype = getattr(torch, spec.dtype)
    bits = np.random.PCG64(np.random.SeedSequence([seed % 2**64, index]))
    if dtype.is_complex:
        real, imaginary = (_KINDS[spec.kind](bits, spec) for _ in range(2))
        return torch.complex(real, imaginary).to(dtype).reshape(spec.shape)
    values = _KINDS[spec.kind](bits, spec).to(dtype)
    if spec.kind == "uniform":
        values[values >= spec.high] = spec.low  # rounding to a short dtype may reach the bound, which is excluded
    return keep_structure(spec, values.reshape(spec.shape))


def draw_own(spec: InputSpec, seed: int) -> torch.Tensor:
    """What `get_inputs` of the reference in `literal` returns at the position `low`, after this seed.

    Raises:
        ValueError: it has another shape.
    """
    value: torch.Tensor = _call_own(spec.literal, seed)[int(spec.low)]
    if value.shape != spec.shape:
        raise ValueError(f"input {spec.name!r} is {tuple(value.shape)} and not {spec.shape}")
    return value.detach().clone()


@lru_cache(maxsize=1)  # the arguments of one call agree with each other
def _call_own(reference: str, seed: int) -> list[Any]:
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=()):
            set_seed(seed)
            return list(_load_own(reference).get_inputs())
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


_load_own = lru_cache(maxsize=4)(load_reference)


def keep_structure(spec: InputSpec, values: torch.Tensor) -> torch.Tensor:
    """Values with the structure that a spec promises of its matrices, if any."""
    return with_structure(values, spec.literal) if spec.kind in ("normal", "uniform") and spec.literal else values


def parse_literal(expression: str) -> Any:
    """The value of a Python literal; `inf`, `nan` and `torch.<dtype>` count as literals too.

    Raises:
        ValueError: the expression is something else.
    """
    if expression.strip("-+") in _NAMED:
        return float(expression)
    if expression.startswith("torch.") and isinstance(value := getattr(torch, expression[6:], None), torch.dtype):
        return value
    try:
        return ast.literal_eval(expression)
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"{expression!r} is not a Python literal") from error


def _normal(bits: np.random.PCG64, spec: InputSpec) -> torch.Tensor:
    """The sum of twelve uniform values less six, scaled and moved: no transcendental function. In float64."""
    words = bits.random_raw(4 * math.prod(spec.shape)).reshape(4, -1)
    mean, deviation = moments(spec)
    values = np.empty(words.shape[1])
    for start in range(0, len(values), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        np.add(_sum_of_twelve(words[:, part]) / 2.0**48 * deviation, mean, out=values[part])
    return torch.from_numpy(values)


def _sum_of_twelve(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Less six, in units of 2**-48, for each column of four words."""
    halves = np.uint64(0x0000FFFF0000FFFF)  # each word holds four values of 16 bits; two lanes of 32 bits add them up
    lanes = ((words[:3] & halves) + ((words[:3] >> np.uint64(16)) & halves)).sum(axis=0)
    sums = ((lanes & np.uint64(0xFFFFFFFF)) + (lanes >> np.uint64(32))).astype(np.int64)
    fine = (words[3] >> np.uint64(32)).astype(np.int64)  # low bits, so that sums in float32 do round
    summed: npt.NDArray[np.int64] = (sums - 6 * 65536) * 2**32 + fine
    return summed


def _uniform(bits: np.random.PCG64, spec: InputSpec) -> torch.Tensor:
    _check_range(spec)
    raw = bits.random_raw(math.prod(spec.shape))
    return torch.from_numpy((raw >> np.uint64(11)) / 2.0**53 * (spec.high - spec.low) + spec.low)


def _integers(bits: np.random.PCG64, spec: InputSpec) -> torch.Tensor:
    _check_range(spec)
    raw = bits.random_raw(math.prod(spec.shape))
    span = math.ceil(spec.high) - math.ceil(spec.low)
    return torch.from_numpy((raw % np.uint64(span)).astype(np.int64) + math.ceil(spec.low))


def _offsets(bits: np.random.PCG64, spec: InputSpec) -> torch.Tensor:
    """Rising without repeats, as long as the range has room for that."""
    _check_range(spec)
    count = math.prod(spec.shape)
    room = max(spec.low + 1.0, spec.high - count + 1.0)
    values = _integers(bits, replace(spec, high=room)).sort().values + torch.arange(count)
    values = values.clamp(max=math.ceil(spec.high) - 1)
    return _between_bounds(values, spec)


def _segments(bits: np.random.PCG64, spec: InputSpec) -> torch.Tensor:
    values = _between_bounds(_integers(bits, spec).sort().values, spec)
    if len(values) >= 3:
        values[len(values) // 2] = values[len(values) // 2 - 1]  # an empty segment
    return values


def _between_bounds(values: torch.Tensor, spec: InputSpec) -> torch.Tensor:
    values[:1], values[-1:] = math.ceil(spec.low), math.ceil(spec.high) - 1
    return values


def _permutation(bits: np.random.PCG64, spec: InputSpec) -> torch.Tensor:
    order = np.argsort(bits.random_raw(math.prod(spec.shape)), kind="stable")
    return torch.from_numpy(order + math.ceil(spec.low))


def _choice(bits: np.random.PCG64, spec: InputSpec) -> torch.Tensor:
    values = parse_literal(spec.literal)
    if not isinstance(values, tuple) or not values:
        raise ValueError(f"input {spec.name!r} has no values to choose from: {spec.literal!r}")
    raw = bits.random_raw(math.prod(spec.shape))
    return torch.from_numpy(np.asarray(values)[raw % np.uint64(len(values))])


def _bool(bits: np.random.PCG64, spec: InputSpec) -> torch.Tensor:
    return torch.from_numpy((bits.random_raw(math.prod(spec.shape)) >> np.uint64(63)).astype(np.bool_))


def _check_range(spec: InputSpec) -> None:
    if not spec.low < spec.high:
        raise ValueError(f"input {spec.name!r} has the empty range [{spec.low}, {spec.high})")


_KINDS = {
    draw_values.__name__.removeprefix("_"): draw_values
    for draw_values in (_normal, _uniform, _integers, _offsets, _segments, _permutation, _choice, _bool)
}
