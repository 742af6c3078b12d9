"""Inside the sandbox: how far the oracle moves if the inputs move by rounding errors, as a kernel's result may.

Most functions move in proportion. At a step, such as that of `round` or `x > 0`, a small change of the inputs changes
the result by the whole height of the step or not at all: there the tolerance is that height.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from musadata.verifier.protocol.tolerance import CONDITION_FACTOR, REFERENCE_ERROR_FACTOR
from musadata.verifier.sandboxed.rounding_noise import HALF_TYPES, NOISE_FACTOR, UNIT, Noise

Oracle = Callable[[list[Any]], list[torch.Tensor]]
ALTERNATE, ALIKE = True, False
# By how many units in the last place inputs are moved, by element size: kernels compute half types in float.
_NEAR = {2: 1 / 16, 4: 1.0, 8: 1.0}
_FAR = {2: 1.0, 4: 64.0, 8: 64.0}  # adding in another order seldom moves a sum further
_TINY = {2: 1e-10, 4: 1e-6, 8: 500.0}  # hundreds of float64 units, for every input type
# Where rounding moves a result by more than any tolerance allows, an element that hardly moves in one draw may move in
# others. Half as many show both sides of steps, and one suffices elsewhere.
_NOISE_DRAWS = 8
_CALM = 500 * UNIT  # of the output's size: such changes are allowed anyway
_BENT = 0.25  # relative difference of the movements in both directions above which there is a step
_SMOOTH = 1e-6  # of the output's size: the most that a tiny shake moves it where there is no step


def measure_conditioning(
    reference: Oracle, oracle: Oracle, values: list[Any], truth: list[torch.Tensor], exact: bool
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Per output: the oracle of inputs moved by one ulp, and the condition of every element in float32.

    `truth` is the oracle of `values`. `exact`: the inputs are round numbers, so that rounding does not decide on which
    side of a step they are.
    """
    shaken = oracle(shake(values))
    moves = [_distance(moved, right) for moved, right in zip(shaken, truth, strict=True)]
    for at, steps in enumerate(_measure_steps(oracle, values, truth)):
        moves[at] = torch.where(steps > 0, steps / CONDITION_FACTOR, moves[at])
    if exact:
        for moved in (oracle(_shake(values, sign, ALTERNATE, _TINY)) for sign in (1.0, -1.0)):
            jumps = [_jumps(*pair) for pair in zip(moved, truth, strict=True)]
            moves = [torch.where(jump, 0.0, move) for jump, move in zip(jumps, moves, strict=True)]
            shaken = [torch.where(*choice) for choice in zip(jumps, truth, shaken, strict=True)]
    else:
        for errors in (_rounding(reference, oracle, values, alternate) for alternate in (ALTERNATE, ALIKE)):
            moves = [torch.maximum(*pair) for pair in zip(moves, errors or moves, strict=True)]
    in_half = not exact and any(isinstance(one, torch.Tensor) and one.dtype in HALF_TYPES for one in values)
    swings = _measure_swings(reference if in_half else oracle, values, truth, in_half)
    moves = [torch.maximum(move, swing / CONDITION_FACTOR) for move, swing in zip(moves, swings, strict=True)]
    return shaken, [move.float() for move in moves]


def _rounding(reference: Oracle, oracle: Oracle, values: list[Any], alternate: bool) -> list[torch.Tensor]:
    """The reference's own rounding error on neighbouring inputs, as a condition; empty if it does not run on them.

    On exactly these inputs an element may be right by chance.
    """
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


def _measure_swings(run: Oracle, values: list[Any], truth: list[torch.Tensor], in_half: bool) -> list[torch.Tensor]:
    """How far rounding on the way moves the result: a sum of many is off by more than inputs that move by an ulp show,
    and what is compared with a threshold then may fall on the other side. As far as the reference runs under a mode.

    `run`: the oracle; of one `in_half` the reference itself, which knows what is rounded to a half type.
    """
    swings = [torch.zeros(right.shape, dtype=torch.float64, device=right.device) for right in truth]
    has_steps = False
    for draw in range(_NOISE_DRAWS):
        # The opposite signs fall on the other side of a threshold.
        noise = Noise(draw // 2 if has_steps and not in_half else draw, NOISE_FACTOR * (-1) ** draw)
        try:
            with noise:
                noisy = run(values)
            swings = [torch.maximum(s, _distance(*pair)) for s, *pair in zip(swings, noisy, truth, strict=True)]
        except Exception:  # whatever the reference raises under a mode, or another shape
            break
        has_steps = noise.has_steps
        calm = (bool((swing <= _CALM * _size(right)).all()) for swing, right in zip(swings, truth, strict=True))
        few = _NOISE_DRAWS // 2 if has_steps else 1
        if draw + 1 >= few and (all(calm) or (in_half and not has_steps)):
            break
    return swings


def _measure_steps(oracle: Oracle, values: list[Any], truth: list[torch.Tensor]) -> list[torch.Tensor]:
    """The height of the step near each element; 0 where there is none."""
    steps = [torch.zeros(right.shape, dtype=torch.float64, device=right.device) for right in truth]
    for alternate in (ALTERNATE, ALIKE):
        there, back = (oracle(_shake(values, sign, alternate, _FAR)) for sign in (1.0, -1.0))
        for at, right in enumerate(truth):
            jump = torch.maximum(_distance(there[at], right), _distance(back[at], right))
            bent = ((there[at] - right) + (back[at] - right)).abs() > _BENT * jump
            # Integers always move by steps; narrow steps, one up and one down, would look smooth.
            is_step = torch.ones_like(bent) if _is_discrete(right) else bent
            steps[at] = torch.maximum(steps[at], torch.where(is_step, jump, 0.0))
        if not any(bool(_is_discrete(right)) or bool(step.any()) for right, step in zip(truth, steps, strict=True)):
            break  # a smooth function: another direction would show nothing new
    return steps


def _is_discrete(right: torch.Tensor) -> bool:
    return not right.dtype.is_floating_point and not right.dtype.is_complex


def _jumps(moved: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Where a tiny shake moves the result by more than rounding."""
    return _distance(moved, right) > _SMOOTH * _size(right)


def _size(right: torch.Tensor) -> torch.Tensor:
    """The root mean square."""
    return right.abs().double().nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()


def _distance(moved: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (moved - right).abs().double().nan_to_num(0.0, 0.0, 0.0)


def shake(values: Sequence[Any]) -> list[Any]:
    """Float inputs moved by a rounding error."""
    return _shake(values, 1.0, ALTERNATE, _NEAR)


def _shake(values: Sequence[Any], sign: float, alternate: bool, units: Mapping[int, float]) -> list[Any]:
    """Float inputs moved by `units` of their dtype's last place: alternately up and down, or all the same way.

    Tensors of whole numbers stay: a label that is compared with 1 has no rounding error.
    """
    shaken = []
    for value in values:
        if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
            wide = value.double()
            if bool((wide != wide.round()).any()):
                numbers = torch.arange(value.numel(), device=value.device)
                signs = 1.0 - 2.0 * (numbers % 2).double().reshape(value.shape)
                amount = sign * units.get(value.dtype.itemsize, units[2]) * torch.finfo(value.dtype).eps
                value = wide * (1.0 + (signs if alternate else 1.0) * amount)
        shaken.append(value)
    return shaken
