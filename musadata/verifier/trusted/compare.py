"""Comparing a candidate's outputs with the expected ones, in the trusted process."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from musadata.records import Finding
from musadata.verifier.protocol.pytree import describe
from musadata.verifier.protocol.tensors import Array, unpack
from musadata.verifier.protocol.tolerance import CONDITION_FACTOR, REFERENCE_ERROR_FACTOR, Tolerance
from musadata.verifier.protocol.variants import INFINITE, PLAIN
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.trusted.candidate_report import Result
from musadata.verifier.trusted.expectation import ExpectedSet

_INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")


def compare_result(expected: ExpectedSet, result: Result) -> tuple[Finding, ...]:
    """Findings about one result; none if it is right."""
    if result.structure != expected.structure or len(result.arrays) != len(expected.expected):
        right, found = describe(expected.structure), _describe_untrusted(result.structure)
        return (rules.CORRECTNESS_STRUCTURE.finding(found, right, expected=right, got=found),)
    findings: list[Finding] = []
    infinite = expected.plan.variant == INFINITE
    rights = zip(expected.expected, expected.oracle, expected.conditions, expected.tolerances, strict=True)
    for number, (array, (want, truth, condition, tolerance)) in enumerate(zip(result.arrays, rights, strict=True)):
        name = "The output" if len(expected.expected) == 1 else f"Output {number}"
        finding = _compare_array(name, array, want, truth, condition, None if infinite else tolerance)
        if finding:
            findings.append(finding)
    if findings and expected.plan.variant not in (PLAIN, INFINITE):  # once, whatever the number of outputs
        size = _largest_input(expected.inputs)
        findings[0] = replace(findings[0], message=f"{findings[0].message} Inputs are up to {size:.3g} in size.")
    return tuple(findings)


def _largest_input(inputs: bytes) -> float:
    values = [np.abs(array.values) for array in unpack(inputs).values() if array.values.size]
    return max((float(np.nanmax(one)) for one in values if one.dtype != np.bool_), default=0.0)


# KernelBench's tolerance, absolute and relative, by dtype (its get_tolerance_for_precision).
_HARNESS = {"float16": 1e-2, "bfloat16": 1e-2}
_HARNESS_ELSE = 1e-4


def find_outside_harness(expected: ExpectedSet, result: Result) -> list[Finding]:
    """The first output to whose values KernelBench's harness would object, which compares by `torch.allclose` with the
    reference's; those of another shape aside."""
    for number, (got, want) in enumerate(zip(result.arrays, expected.expected, strict=False)):
        tolerance = _HARNESS.get(want.dtype, _HARNESS_ELSE)
        with np.errstate(all="ignore"):
            if got.shape == want.shape and not np.allclose(got.values, want.values, atol=tolerance, rtol=tolerance):
                return [rules.CORRECTNESS_HARNESS.finding(f"Output {number}")]
    return []


def _describe_untrusted(structure: object) -> str:
    try:
        return describe(structure)[:200]
    except (TypeError, ValueError, KeyError, IndexError, RecursionError):
        return "something else"


def _compare_array(
    name: str, got: Array, want: Array, oracle: Array, condition: Array, tolerance: Tolerance | None
) -> Finding | None:
    if got.shape != want.shape:
        right, found = _shape(want), _shape(got)
        return rules.CORRECTNESS_SHAPE.finding(name, found, right, expected=right, got=found)
    if got.dtype != want.dtype:
        return rules.CORRECTNESS_DTYPE.finding(name, got.dtype, want.dtype, expected=want.dtype, got=got.dtype)
    if not math.prod(want.shape):
        return None
    if tolerance is None:
        return _swallowed(name, got, want, oracle)
    if want.dtype in _INTEGERS:
        wrong = _wrong_integers(got, want, oracle, condition)
        return _finding(name, rules.CORRECTNESS_VALUES, wrong, got, want) if wrong.any() else None
    wrong, rule = _wrong_floats(got, want, oracle, condition, tolerance)
    if not wrong.any():
        return _drift(name, got, want, oracle, tolerance)
    finding = _finding(name, rule, wrong, got, want)
    return replace(finding, message=f"{finding.message}{_describe_truth(wrong, want, oracle)}")


def _describe_truth(wrong: np.ndarray, want: Array, oracle: Array) -> str:
    """The exact value of the first wrong element, and how far the reference is from it: what rounding may be."""
    first = np.unravel_index(int(np.argmax(wrong)), wrong.shape) if wrong.ndim else ()
    reference, truth = complex(want.values[first]), complex(oracle.values[first])
    if not np.isfinite([reference, truth]).all():
        return ""
    shown = f"{truth:.9g}" if want.dtype.startswith("complex") else f"{truth.real:.9g}"
    return f" There the exact value is {shown}, and the reference is off by {abs(reference - truth):.2g}."


def _drift(name: str, got: Array, want: Array, oracle: Array, tolerance: Tolerance) -> Finding | None:
    """A finding if most elements are a little off, by more than rounding makes."""
    if not tolerance.typical:
        return None
    units = [typical_error(array, oracle) * 2.0**24 for array in (got, want)]
    if units[0] <= tolerance.typical or units[0] <= units[1]:
        return None
    return rules.CORRECTNESS_DRIFT.finding(name, *(f"{number:.3g}" for number in (*units, tolerance.typical)))


def typical_error(got: Array, oracle: Array) -> float:
    """The median error, relative to the element and to the root mean square of all."""
    finite = np.isfinite(oracle.values) & np.isfinite(got.values)
    truth = oracle.values[finite]
    errors = np.abs(got.values[finite] - truth)
    telling = (truth != 0) | (errors != 0)
    if not telling.any():
        return 0.0
    size = np.sqrt(np.mean(np.square(truth)))
    return float(np.median(errors[telling] / (np.abs(truth[telling]) + size)))


def _swallowed(name: str, got: Array, want: Array, oracle: Array) -> Finding | None:
    """A finding if values are finite where the reference's are not, or NaN where these are finite, as masked ones are;
    inf and NaN may depend on the formula."""
    if want.dtype in _INTEGERS:
        return None
    spread = np.isnan(got.values) & np.isfinite(want.values) & np.isfinite(oracle.values)
    if spread.any():
        return _finding(name, rules.CORRECTNESS_NONFINITE, spread, got, want)
    wrong = ~np.isfinite(want.values) & ~np.isfinite(oracle.values) & np.isfinite(got.values)
    if not wrong.any():
        return None
    finding = _finding(name, rules.CORRECTNESS_SWALLOWED, wrong, got, want)
    return replace(finding, message=rules.CORRECTNESS_SWALLOWED.message.format(finding.message))


def _wrong_integers(got: Array, want: Array, oracle: Array, condition: Array) -> np.ndarray:
    """Integers are equal, but where the reference's own rounding, or that of its inputs, decides what they are."""
    truth = oracle.values.astype(np.float64)
    allowed = np.abs(want.values - truth) + CONDITION_FACTOR * condition.values
    far = (np.abs(got.values - truth) > allowed) | (allowed == 0)
    wrong: np.ndarray = (got.values != want.values) & far
    return wrong


def _wrong_floats(
    got: Array, want: Array, oracle: Array, condition: Array, tolerance: Tolerance
) -> tuple[np.ndarray, rules.Rule]:
    wide = np.complex128 if want.dtype.startswith("complex") else np.float64
    values, reference, truth = got.values.astype(wide), want.values.astype(wide), oracle.values.astype(wide)
    with np.errstate(all="ignore"):
        finite = np.isfinite(reference) & np.isfinite(truth)
        allowed = tolerance.relative * np.abs(truth) + _slack(tolerance, want.shape)
        allowed += REFERENCE_ERROR_FACTOR * np.abs(reference - truth) + CONDITION_FACTOR * condition.values
        wrong = finite & ~(np.abs(values - truth) <= allowed)
        # Elements where the reference and the oracle disagree on what is infinite or NaN do not count.
        settled = ~finite & (np.isnan(reference) == np.isnan(truth)) & (np.isnan(reference) | (reference == truth))
        same = (np.isnan(values) & np.isnan(reference)) | (values == reference)
    nonfinite = settled & ~same
    if (wrong & ~np.isfinite(values)).any() or nonfinite.any():
        return wrong | nonfinite, rules.CORRECTNESS_NONFINITE
    return wrong, rules.CORRECTNESS_VALUES


def _slack(tolerance: Tolerance, shape: tuple[int, ...]) -> np.ndarray:
    """The slack of every element: the least of the tensor's and of those of the slices that hold it."""
    slack = np.full([1] * len(shape), tolerance.slack)
    for axis, slacks in tolerance.slices:
        slack = np.minimum(slack, np.reshape(slacks, [-1 if at == axis else 1 for at in range(len(shape))]))
    return slack


def _finding(name: str, rule: rules.Rule, wrong: np.ndarray, got: Array, want: Array) -> Finding:
    """A finding with the first wrong element, the number of wrong elements, and their pattern."""
    count, total = int(wrong.sum()), wrong.size
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape)) if wrong.ndim else ()
    index = "[" + ", ".join(map(str, first)) + "]"
    expected, found = _number(want.values[first]), _number(got.values[first])
    worst = _worst(got, want, wrong)
    message = f"{name} is wrong in {count} of {total} elements"
    message += (
        f", first at {index}: {found} instead of {expected}" if wrong.ndim else f": {found} instead of {expected}"
    )
    message += f"; largest error {worst}" if worst else ""
    message += f". {_pattern(wrong, got, want)}".rstrip()
    message = message if message.endswith(".") else message + "."
    return rule.worded(message, index=index, expected=expected, got=found)


def _worst(got: Array, want: Array, wrong: np.ndarray) -> str:
    if got.dtype in _INTEGERS:
        return ""
    with np.errstate(all="ignore"):
        errors = np.abs(got.values.astype(np.complex128) - want.values.astype(np.complex128))[wrong]
    errors = errors[np.isfinite(errors)]
    return f"{errors.max():.3g}" if errors.size else ""


def _pattern(wrong: np.ndarray, got: Array, want: Array) -> str:
    """A hint: what is conspicuous about the wrong elements; empty if nothing is."""
    values = got.values
    flat, count, total = wrong.ravel(), int(wrong.sum()), wrong.size
    if got.dtype not in _INTEGERS and np.isnan(values[wrong]).all():
        return (
            "All of these are NaN: never written, computed from memory that was never written, or left by an overflow, "
            "as inf / inf is."
        )
    if count == total and not np.any(values):
        return "The output is all zeros."
    if total > 1 and count == total and np.all(values == values.ravel()[0]):
        return "All elements of the output are equal."
    hint = _place(flat, count, total)
    if hint:
        return hint
    with np.errstate(all="ignore"):
        ratio = (values.astype(np.complex128) / want.values.astype(np.complex128))[wrong]
    if count > 3 and np.isfinite(ratio).all() and np.abs(ratio - ratio[0]).max() < 1e-3 * np.abs(ratio[0]):
        return f"Each is {ratio[0].real:.4g} times what it should be."
    return ""


def _place(flat: np.ndarray, count: int, total: int) -> str:
    if count == total or total < 4:
        return ""
    first, last = int(np.argmax(flat)), total - 1 - int(np.argmax(flat[::-1]))
    if last - first + 1 == count and last == total - 1:
        return f"Everything from flat index {first} on is wrong, everything before it is right."
    if last - first + 1 == count and count > 1:
        return f"Exactly the flat indices {first} to {last} are wrong."
    steps = np.diff(np.flatnonzero(flat)[:64])
    if count > 3 and steps.size and (steps == steps[0]).all() and steps[0] > 1:
        return f"Every {int(steps[0])}th flat index from {first} on is wrong."
    return ""


def _number(value: np.generic) -> str:
    if isinstance(value, np.complexfloating):
        return f"{complex(value):.6g}"
    return f"{float(value):.6g}" if isinstance(value, np.floating) else str(int(value))


def _shape(array: Array) -> str:
    return "(" + ", ".join(map(str, array.shape)) + ("," if len(array.shape) == 1 else "") + ")"


def same_bits(left: Sequence[Array], right: Sequence[Array]) -> bool:
    """Whether two results are equal bit for bit."""
    return len(left) == len(right) and all(a.raw == b.raw for a, b in zip(left, right, strict=True))
