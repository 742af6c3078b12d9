"""How far a result may be from the truth: from an fp64 oracle, the reference's own error, and the output's own scale.

An element may differ from the oracle by

    relative·|oracle| + slack + 8·|reference − oracle| + 16·|oracle of inputs changed by one ulp − oracle|

with slack = 500 ulp of the output's root mean square, plus 8 times the typical error of the reference, plus 16 times
the typical change of the oracle if inputs change by one ulp. Sums in another order pass; half precision, TF32 and
unstable formulas do not. A slice of the output, such as a row, that is much smaller than the whole gets slack by its
own size if the reference is exact on that scale, so that errors in it show beside large values. If all zeros, the
output's mean, or the result for other inputs would pass, the slack is tightened; if they still pass, the set proves
nothing and does not count.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

REFERENCE_ERROR_FACTOR = 8.0
CONDITION_FACTOR = 16.0
_RELATIVE_ULPS = {"float64": 170.0, "float32": 170.0, "float16": 4.0, "bfloat16": 4.0}
_SCALE_ULPS = {"float64": 500.0, "float32": 500.0, "float16": 2.0, "bfloat16": 2.0}
_TIGHT_ULPS = 16.0
_FEW, _MANY = 8, 4096  # least elements of a slice, and most slices along an axis
_MUCH_SMALLER = 1 / 8  # than the whole output
_EXACT_ULPS = 32.0
_SAMPLE = 1 << 20  # elements from which the typical error of a large output is known
_PART = 1 << 24  # elements of it that are looked at together
_LEAST_ULPS = 8.0  # of the whole output: the rounding error of an intermediate value of its size
_OUTLIER = 16.0  # the typical error is at most this many medians: steps, such as those of round(), do not count


@dataclass(frozen=True)
class Tolerance:
    """For one output tensor; `relative` and `slack` are 0 for integers, which must be equal.

    `typical`: the most that half of the errors may exceed, in units of float32, relative to the element and to the
    root mean square; 0 where nothing is known, see `sandboxed.rounding_noise`.

    `discriminating`: zeros, a constant, and the result for other inputs fail. `tight`: the slack was tightened, so that
    a correct result in another order of rounding may fail.
    """

    relative: float
    slack: float
    discriminating: bool
    tight: bool = False
    slices: tuple[tuple[int, tuple[float, ...]], ...] = ()  # (axis, slack of each slice along it)
    typical: float = 0.0


def measure_tolerance(
    reference: "torch.Tensor", oracle: "torch.Tensor", shaken: "torch.Tensor", other: "torch.Tensor | None"
) -> Tolerance:
    """`oracle` and `shaken` are float64; `shaken` is the oracle of inputs moved by an ulp, `other` of other inputs."""
    import torch

    kind, unit = _kind_and_unit(reference)
    if not kind:
        return Tolerance(0.0, 0.0, _differs(oracle, other, 0.0, 0.0) and bool((oracle != 0).any()))
    finite = torch.isfinite(oracle) & torch.isfinite(reference)
    if not bool(finite.any()):
        return Tolerance(0.0, 0.0, False)
    truth = oracle[finite]
    own_error = _typical((reference[finite].to(oracle.dtype) - truth).abs(), truth)
    condition = _typical((shaken[finite] - truth).abs().nan_to_num(0.0, 0.0, 0.0), truth)
    scale = float(truth.abs().square().mean().sqrt())
    relative = _RELATIVE_ULPS[kind] * unit
    wide = _SCALE_ULPS[kind] * unit * scale + REFERENCE_ERROR_FACTOR * own_error + CONDITION_FACTOR * condition
    tight = _TIGHT_ULPS * unit * scale + REFERENCE_ERROR_FACTOR * own_error
    slices = _measure_slices(reference, oracle, shaken, (wide, scale * unit), kind, unit)
    other_values = other[finite] if other is not None else None
    for share, slack in ((relative, wide), (_TIGHT_ULPS * unit / 4, tight)):
        if _fools_fail(truth, other_values, share, slack):
            return Tolerance(share, slack, True, slack != wide, slices)
    return Tolerance(relative, tight, False, True)


def measure_wide_tolerance(
    reference: "torch.Tensor", oracle: "torch.Tensor", shaken: "torch.Tensor | None"
) -> Tolerance:
    """The tolerance of a large output on which nothing needs to be told apart: not tightened, not by slices, and the
    typical error from a sample. `shaken` is as for `measure_tolerance`."""
    import torch

    kind, unit = _kind_and_unit(reference)
    if not kind:
        return Tolerance(0.0, 0.0, True)
    step = max(1, oracle.numel() // _SAMPLE) | 1  # odd, so that it does not stay in a few columns
    sample, own = oracle.flatten()[::step], reference.flatten()[::step]
    finite = torch.isfinite(sample) & torch.isfinite(own)
    if not bool(finite.any()):
        return Tolerance(_RELATIVE_ULPS[kind] * unit, 0.0, True)
    truth = sample[finite]
    slack = _SCALE_ULPS[kind] * unit * _root_mean_square(oracle.flatten())
    slack += REFERENCE_ERROR_FACTOR * _typical((own[finite].to(oracle.dtype) - truth).abs(), truth)
    if shaken is not None:
        moved = (shaken.flatten()[::step][finite] - truth).abs().nan_to_num(0.0, 0.0, 0.0)
        slack += CONDITION_FACTOR * _typical(moved, truth)
    return Tolerance(_RELATIVE_ULPS[kind] * unit, slack, True)


def least_wide_tolerance(reference: "torch.Tensor") -> Tolerance:
    """What `measure_wide_tolerance` allows at the least, whatever the oracle: known from the reference alone."""
    import torch

    kind, unit = _kind_and_unit(reference)
    if not kind:
        return Tolerance(0.0, 0.0, True)
    values = reference.flatten()
    share = float(torch.isfinite(values).double().mean()) if len(values) else 0.0  # the oracle has at least these
    slack = _SCALE_ULPS[kind] * unit * _root_mean_square(values) * share**0.5
    return Tolerance(_RELATIVE_ULPS[kind] * unit, slack, True)


def _kind_and_unit(reference: "torch.Tensor") -> tuple[str, float]:
    """The name of the dtype of a tensor's real parts, and half of its rounding error at 1; "" of integers."""
    import torch

    if not reference.dtype.is_floating_point and not reference.dtype.is_complex:
        return "", 0.0
    kind = {torch.complex64: "float32", torch.complex128: "float64"}.get(reference.dtype)
    kind = kind or str(reference.dtype).removeprefix("torch.")
    return kind, torch.finfo(getattr(torch, kind)).eps / 2


def _root_mean_square(values: "torch.Tensor") -> float:
    """Of the finite ones; a device is waited for once."""
    parts = values.split(_PART)
    total = sum(part.abs().double().nan_to_num(0.0, 0.0, 0.0).square().sum() for part in parts)
    count = sum(part.isfinite().sum() for part in parts)
    return float((total / max(int(count), 1)) ** 0.5)


def _measure_slices(
    reference: "torch.Tensor",
    oracle: "torch.Tensor",
    shaken: "torch.Tensor",
    whole: tuple[float, float],
    kind: str,
    unit: float,
) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """The slack of slices much smaller than the whole output; `whole` is the output's slack and an ulp of its size."""
    import torch

    finite = torch.isfinite(oracle) & torch.isfinite(reference)
    truth, errors, moves = (
        torch.where(finite, value, 0.0).abs().nan_to_num(0.0, 0.0, 0.0)
        for value in (oracle, reference.to(oracle.dtype) - oracle, shaken - oracle)
    )
    found = []
    for axis, count in enumerate(truth.shape):
        if not 2 <= count <= _MANY or truth.numel() < _FEW * count:
            continue
        rows, off, moved = (value.movedim(axis, 0).reshape(count, -1) for value in (truth, errors, moves))
        sizes = rows.square().mean(1).sqrt()
        own = (sizes > 0) & (sizes * unit < _MUCH_SMALLER * whole[1]) & (off.amax(1) <= _EXACT_ULPS * unit * sizes)
        slacks = [whole[0]] * count
        for index in own.nonzero().flatten().tolist():
            slack = _SCALE_ULPS[kind] * unit * float(sizes[index])
            slack += REFERENCE_ERROR_FACTOR * _typical(off[index], rows[index])
            slack += CONDITION_FACTOR * _typical(moved[index], rows[index])
            slacks[index] = min(whole[0], max(slack, _LEAST_ULPS * whole[1]))
        if min(slacks) < whole[0]:
            found.append((axis, tuple(slacks)))
    return tuple(found)


def _typical(errors: "torch.Tensor", truth: "torch.Tensor") -> float:
    """The largest error, but at most a multiple of the median error, which excludes steps. Elements that are exactly
    zero, as after a ReLU, a mask or padding, do not count."""
    telling = errors[(truth != 0) | (errors != 0)]
    if len(telling) < 8:
        return float(errors.max())
    return min(float(errors.max()), _OUTLIER * float(telling.median()))


def _fools_fail(truth: "torch.Tensor", other: "torch.Tensor | None", relative: float, slack: float) -> bool:
    """Whether zeros, a constant, and the result for other inputs all fail."""
    import torch

    zeros = _differs(truth, torch.zeros_like(truth), relative, slack)
    constant = truth.numel() == 1 or _differs(truth, truth.mean().expand_as(truth), relative, slack)
    return zeros and constant and _differs(truth, other, relative, slack)


def _differs(truth: "torch.Tensor", guess: "torch.Tensor | None", relative: float, slack: float) -> bool:
    if guess is None:
        return True
    return bool(((guess - truth).abs() > relative * truth.abs() + slack).any())
