"""Hashes of what a task computes on fixed small inputs: equal for two ways to write one formula.

Runs inside the sandbox. All long sizes of a task, its constructor's and its inputs', become one small size, so that
two tasks meet whatever sizes they have; parameters are set by their shapes alone. Results are those of float64 and
hashed by their length and a few projections, rounded far above its errors. A task that does not run at such sizes, as
a deep network whose images become too small, has no hash: its graph and its text tell what it is.
"""

import hashlib
from collections import Counter
from contextlib import suppress
from itertools import permutations
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from musadata.tasks.checked_reference import draw_inputs, load
from musadata.tasks.reference_loading import set_seed

SIZE = 16  # that long sizes become
_LONG = 8  # arguments of constructors from here on are sizes, below often counts and kernels
_REORDERED = 3  # inputs whose order may be another one
_PROJECTIONS = 3
_LEAST_SPREAD = 1e-6  # of results, against their largest: a constant says nothing
_REAL, _POSITIVE = (-8.0, 8.0), (0.0, 1.0)  # ranges of inputs; the first reaches what clamps at 6


def hash_results(source: str, every_order: bool = False) -> list[str]:
    """The hash of a task's results where all sizes of its inputs are one, or else where only long ones are.

    Args:
        every_order: with one hash for each order of the tensors among its inputs, as the same task may take them.

    Returns:
        One hash, several if `every_order`, none if the task does not run so or its results say nothing.
    """
    found: dict[str, None] = {}
    with suppress(Exception), torch.no_grad():
        module = load(source)
        with torch.device("meta"):  # FakeTensorMode imports PyTorch's compiler, which takes seconds
            inputs = draw_inputs(module, 0)
        tensors = [place for place, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        usual = tuple(range(len(tensors)))
        for order in permutations(usual) if every_order and len(usual) <= _REORDERED else [usual]:
            numbers = dict(zip(tensors, order, strict=True))
            for least in (2, _LONG):
                with suppress(Exception):  # whatever a task raises at other sizes
                    found[_hash_of(module, inputs, numbers, least)] = None
                    break
    return list(found)


def _hash_of(module: ModuleType, inputs: list[Any], numbers: dict[int, int], least: int) -> str:
    """The hash where each size of an input from `least` on is `SIZE`. `numbers`: of which values a tensor has.

    Raises:
        ValueError: the results are not finite, hardly differ, or are an input.
    """
    set_seed(0)
    model = module.Model(*tree_map(_shorten, list(module.get_init_inputs()))).double().eval()
    _set_parameters(model)
    for limits in (_REAL, _POSITIVE):  # some functions are of positive values alone, or saturate
        values = [
            _draw(value, numbers[place], least, limits) if place in numbers else value
            for place, value in enumerate(inputs)
        ]
        given = [value.clone() if isinstance(value, torch.Tensor) else value for value in values]
        leaves = [leaf for leaf in tree_leaves(model(*given)) if isinstance(leaf, torch.Tensor)]
        result = torch.cat([leaf.detach().double().reshape(-1) for leaf in leaves])
        if torch.isfinite(result).all() and _says_something(result):
            break
    else:
        raise ValueError("not finite, or constant")
    if any(torch.equal(values[place].double().reshape(-1), result) for place in numbers):
        raise ValueError("an input")
    length = float(result.norm())
    projections = [float(_uniform(result.shape, 1000 + number, _REAL) @ result) for number in range(_PROJECTIONS)]
    text = [f"{length:.6e}", *(f"{projection / length:.6f}" for projection in projections)]
    return hashlib.sha256(" ".join(text).replace("-0.000000", "0.000000").encode()).hexdigest()[:32]


def _says_something(result: torch.Tensor) -> bool:
    largest = float(result.abs().max())
    return largest > 0.0 and (result.numel() == 1 or float(result.max() - result.min()) > _LEAST_SPREAD * largest)


def _shorten(argument: Any) -> Any:
    return SIZE if type(argument) is int and argument >= _LONG else argument


def _set_parameters(model: torch.nn.Module) -> None:
    """Values that depend on a parameter's shape and on how many before it have the same."""
    seen: Counter[tuple[int, ...]] = Counter()
    for parameter in model.parameters():
        shape = tuple(parameter.shape)
        if parameter.is_floating_point():
            limits = (-1.0, 1.0) if len(shape) > 1 else (0.5, 1.0)  # scales and offsets are not near zero
            parameter.copy_(_uniform(shape, 100 + seen[shape], limits).to(parameter.dtype))
        seen[shape] += 1


def _draw(like: torch.Tensor, number: int, least: int, limits: tuple[float, float]) -> torch.Tensor:
    shape = tuple(SIZE if size >= least else size for size in like.shape)
    values = _uniform(shape, number, limits)
    if like.is_floating_point():
        return values
    return (values > sum(limits) / 2).to(like.dtype)  # 0 and 1: an index into whatever it is


def _uniform(shape: tuple[int, ...], number: int, limits: tuple[float, float]) -> torch.Tensor:
    """Values in this range by numpy's PCG64, whose stream is the same on every machine."""
    low, high = limits
    return torch.from_numpy(np.random.Generator(np.random.PCG64([number, *shape])).random(shape)) * (high - low) + low
