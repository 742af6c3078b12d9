"""How far the truth moves when the inputs do: an honest kernel's rounding may move its result about as far.

Most functions move in proportion. At a step, as of `round` or `x > 0`, a result jumps when its inputs move a little, or
not at all: there the jump is what is allowed, and no more. Only for use inside the sandbox.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from musadata.verifier.protocol.tolerance import CONDITION_FACTOR, REFERENCE_ERROR_FACTOR

Oracle = Callable[[list[Any]], list[torch.Tensor]]
ALTERNATE, ALIKE = True, False
# By how many units in the last place inputs are moved, by their bytes: half types are computed in float inside.
_NEAR = {2: 1 / 16, 4: 1.0, 8: 1.0}
_FAR = {2: 1.0, 4: 64.0, 8: 64.0}  # a sum in another order hardly moves further
_TINY = {2: 1e-10, 4: 1e-6, 8: 500.0}  # hundreds of units of the oracle, whatever the inputs are
_BENT = 0.25  # of a movement: by as much it may differ from the one the other way, where there is no step
_SMOOTH = 1e-6  # of the output's size: what a tiny shake moves at most where there is no step


def measure_conditioning(
    reference: Oracle, oracle: Oracle, values: list[Any], truth: list[torch.Tensor], exact: bool
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """(`truth` of inputs moved by an ulp, condition of every element, in float32), per output.

    `exact`: inputs are so round that which side of a step they are on is no matter of rounding.
    """
    shaken = oracle(_shake(values, 1.0, ALTERNATE, _NEAR))
    moves = [_distance(moved, right) for moved, right in zip(shaken, truth, strict=True)]
    for at, steps in enumerate(_measure_steps(oracle, values, truth)):
        moves[at] = torch.where(steps > 0, steps / CONDITION_FACTOR, moves[at])
    if exact:
        for moved in (oracle(_shake(values, sign, ALTERNATE, _TINY)) for sign in (1.0, -1.0)):
            moves = [_settle(move, *pair) for move, *pair in zip(moves, moved, truth, strict=True)]
            shaken = [torch.where(_jumps(*pair), pair[1], far) for far, *pair in zip(shaken, moved, truth, strict=True)]
    else:
        for errors in (_rounding(reference, oracle, values, alternate) for alternate in (ALTERNATE, ALIKE)):
            moves = [torch.maximum(*pair) for pair in zip(moves, errors or moves, strict=True)]
    return shaken, [move.float() for move in moves]


def _rounding(reference: Oracle, oracle: Oracle, values: list[Any], alternate: bool) -> list[torch.Tensor]:
    """How far the reference's own rounding takes it from the truth next to these inputs, since on just these an element
    may be right by luck, in terms of a condition; nothing if it does not run there."""
    shaken = _shake(values, -1.0, alternate, _FAR)
    near = [
        moved.to(value.dtype) if isinstance(value, torch.Tensor) else moved
        for moved, value in zip(shaken, values, strict=True)
    ]
    try:
        return [
            _distance(own, right) * ((1.0 if _is_discrete(right) else REFERENCE_ERROR_FACTOR) / CONDITION_FACTOR)
            for own, right in zip(reference(near), oracle(near), strict=True)
        ]
    except Exception:  # whatever the reference raises, or another shape
        return []


def _measure_steps(oracle: Oracle, values: list[Any], truth: list[torch.Tensor]) -> list[torch.Tensor]:
    """How high the step is that each element is close to; 0 where there is none."""
    steps = [torch.zeros(right.shape, dtype=torch.float64) for right in truth]
    for alternate in (ALTERNATE, ALIKE):
        there, back = (oracle(_shake(values, sign, alternate, _FAR)) for sign in (1.0, -1.0))
        for at, right in enumerate(truth):
            jump = torch.maximum(_distance(there[at], right), _distance(back[at], right))
            bent = ((there[at] - right) + (back[at] - right)).abs() > _BENT * jump
            # Integers move by steps only; where these are narrow, by one up and one down, as if they were smooth.
            is_step = torch.ones_like(bent) if _is_discrete(right) else bent
            steps[at] = torch.maximum(steps[at], torch.where(is_step, jump, 0.0))
        if not any(bool(_is_discrete(right)) or bool(step.any()) for right, step in zip(truth, steps, strict=True)):
            break  # a smooth function: other directions would show no more
    return steps


def _is_discrete(right: torch.Tensor) -> bool:
    return not right.dtype.is_floating_point and not right.dtype.is_complex


def _jumps(moved: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Where a tiny shake is enough for more than rounding."""
    size = right.abs().double().nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()
    return _distance(moved, right) > _SMOOTH * size


def _settle(move: torch.Tensor, moved: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.where(_jumps(moved, right), 0.0, move)


def _distance(moved: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (moved - right).abs().double().nan_to_num(0.0, 0.0, 0.0)


def _shake(values: Sequence[Any], sign: float, alternate: bool, units: Mapping[int, float]) -> list[Any]:
    """Float inputs moved by so many units in the last place of their dtype: up and down in turn, or all alike.

    Whole numbers stay: a label that is compared with 1 has no rounding error, and moved it would equal nothing.
    """
    shaken = []
    for value in values:
        if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
            wide = value.double()
            if bool((wide != wide.round()).any()):
                signs = 1.0 - 2.0 * (torch.arange(value.numel()) % 2).double().reshape(value.shape)
                amount = sign * units.get(value.dtype.itemsize, units[2]) * torch.finfo(value.dtype).eps
                value = wide * (1.0 + (signs if alternate else 1.0) * amount)
        shaken.append(value)
    return shaken
