"""What faults of formulas do to values: computed from the numbers that stand in the case."""

from math import erf, exp, sqrt, tanh
from typing import Any

from musadata.compiler.faults.derivation import Edit, Figures, derives
from musadata.compiler.faults.kernel_changes import divisor_of
from musadata.compiler.faults.thread_walk import arguments_of
from musadata.compiler.ir.code import (
    Apply,
    Assign,
    Binary,
    Choice,
    Declare,
    Name,
    Number,
    Unary,
    evaluate,
    of_kind,
    walk,
)


def _combiners(edit: Edit, name: Name) -> int:
    """How many threads' values of a variable are combined into one."""
    for one in of_kind(edit.emitted.function, Assign):
        if one.target == name and isinstance(one.value, Apply) and one.value.function.startswith(("warp_", "block_")):
            return 32 if one.value.function.startswith("warp_") else edit.emitted.threads[0]
    return 1


@derives("wrong_identity")
def _wrong_start(edit: Edit) -> Figures:
    right = edit.gone(Declare)
    if right is None:
        return None
    name = right.variables[0][0]
    if isinstance(right.value, Number):
        threads = _combiners(edit, name)
        return {"form": "shared_identity" if threads > 1 else "wrong_identity", "name": name, "threads": threads}
    return {"form": f"identity_of_{'maximum' if isinstance(right.value, Unary) else 'minimum'}", "name": name}


@derives("forgotten_scale", "missing_cast")
def _no_mean(edit: Edit) -> Figures:
    left = [one for one in walk(edit.parts[1]) if divisor_of(one) is not None]
    divisions = (one for one in walk(edit.parts[0]) if divisor_of(one) is not None and one not in left)
    division: Any = next(divisions, None)
    for sizes in edit.sizes if division is not None else ():
        count = evaluate(divisor_of(division), arguments_of(edit.emitted, sizes))
        if count is not None and count > 1:
            return {"at": edit.at(sizes), "divisor": divisor_of(division), "division": division, "count": count}
    return None


@derives("wrong_correction")
def _unbiased(edit: Edit) -> Figures:
    count, less = (one.whole if isinstance(one, Number) else 0 for one in edit.nodes)
    if not count or not less:
        return None
    return {"count": count, "less": less, "ratio": count / less, "percent": 100 * (1 - sqrt(less / count))}


def _gelu(x: float, factor: float = 0.70710677) -> float:
    return 0.5 * x * (1 + erf(x * factor))


def _tanh_gelu(x: float, cubic: float = 0.044715) -> float:
    return 0.5 * x * (1 + tanh(0.7978846 * (x + cubic * x**3)))


@derives("approximate_gelu")
def _by_tanh(edit: Edit) -> Figures:
    worst = max((n / 100 for n in range(500)), key=lambda x: abs(_gelu(x) - _tanh_gelu(x)))
    exact, other = _gelu(worst), _tanh_gelu(worst)
    return {"x": worst, "exact": exact, "other": other, "off": abs(exact - other)}


# By what a wrong formula ends with: the right function and the wrong one, and what the formula's constants are.
_SLIPS = {
    "0.7978846f)": (
        _gelu,
        lambda x: _gelu(x, 0.7978846),
        "1/√2 = 0.70710677, and √(2/π) = 0.7978846 is the factor of the approximation by tanh",
    ),
    "0.44715f": (
        _tanh_gelu,
        lambda x: _tanh_gelu(x, 0.44715),
        "the coefficient of x³ is 0.044715: a digit was lost, which makes it ten times as large",
    ),
    "expf(x))": (
        lambda x: x / (1 + exp(-x)),
        lambda x: x / (1 + exp(x)),
        "SiLU is x times the sigmoid 1 / (1 + exp(-x)); with exp(x) it is the sigmoid of -x",
    ),
}


@derives("wrong_constant")
def _other_constant(edit: Edit) -> Figures:
    old, new = map(str, edit.nodes)
    found = next((entry for end, entry in _SLIPS.items() if end in new and end not in old), None)
    if found is None:
        return None
    right, wrong, why = found
    return {"right": [right(1.0), right(-2.0)], "wrong": [wrong(1.0), wrong(-2.0)], "why": why}


@derives("unstable_softmax")
def _overflowing_softmax(edit: Edit) -> Figures:
    return {}


@derives("unstable_softplus")
def _overflowing_softplus(edit: Edit) -> Figures:
    match edit.nodes[0]:
        case Choice(Binary(_, ">", Number(digits))):
            bound = float(digits.rstrip("f"))
            return {"bound": bound, "rest": exp(-bound)}
    return None
