"""What faults of formulas do to values: computed from the numbers that stand in the case."""

from math import erf, exp, sqrt, tanh
from typing import Any

from musadata.compiler.faults.derivation import Derivation, Edit, derives
from musadata.compiler.faults.kernel_changes import divisor_of
from musadata.compiler.faults.thread_walk import arguments_of, value_of
from musadata.compiler.ir.code import (
    Apply,
    Assign,
    Binary,
    Choice,
    Declare,
    Name,
    Number,
    Unary,
    of_kind,
    walk,
)

_LARGEST_EXPONENT = 88.7  # whose exponential float32 can hold


def _combiners(edit: Edit, name: Name) -> int:
    """How many threads' values of a variable are combined into one."""
    for one in of_kind(edit.emitted.function, Assign):
        if one.target == name and isinstance(one.value, Apply) and one.value.function.startswith(("warp_", "block_")):
            return 32 if one.value.function.startswith("warp_") else edit.emitted.threads[0]
    return 1


@derives("wrong_identity")
def _wrong_start(edit: Edit) -> Derivation | None:
    right = edit.gone(Declare)
    if right is None:
        return None
    name, threads = right.variables[0][0], _combiners(edit, right.variables[0][0])
    if isinstance(right.value, Number):
        more = (
            f"Each of the {threads} threads that share a result starts from 1, and their values are added up, so that "
            f"`{name}` comes out too large by {threads}"
            if threads > 1
            else f"So `{name}` comes out too large by exactly 1"
        )
        told = (
            f"`{name}` starts from 1. {more}, whatever the inputs are: the smaller the true sum, the worse the result."
        )
        return Derivation(
            told,
            f"0 is what adds nothing: of no elements the sum is 0, in each of {threads} threads"
            if threads > 1
            else "0 is what adds nothing: the sum of no elements is 0",
        )
    low = isinstance(right.value, Unary)
    sign, word, bound = ("below", "maximum", "-INFINITY") if low else ("above", "minimum", "INFINITY")
    told = (
        f"`{name}` starts from 0, as if 0 were among the elements. Where all of them are {sign} 0, say "
        f"{'-3 and -1' if low else '3 and 1'}, the {word} comes out as 0 instead of {'-1' if low else '1'}; as soon as "
        "one is on the other side of 0, nothing shows."
    )
    return Derivation(
        told, f"`{bound}` is {sign if low else 'above'} every element, so that the first one always takes its place"
    )


@derives("forgotten_scale", "missing_cast")
def _no_mean(edit: Edit) -> Derivation | None:
    right = [one for one in walk(edit.parts[0]) if divisor_of(one) is not None]
    left = [one for one in walk(edit.parts[1]) if divisor_of(one) is not None]
    division: Any = next((one for one in right if one not in left), None)
    divisor = divisor_of(division)
    for sizes in edit.sizes if divisor is not None else ():
        count = value_of(divisor, arguments_of(edit.emitted, sizes))
        if count is None or count < 2:
            continue
        shown = f"`{divisor}` is {count}" if str(divisor) != str(count) else f"the divisor is {count}"
        at = edit.at(sizes)
        if any(
            isinstance(one, Binary) and one.sign == "/" and one.left == Number("1") for one in walk(edit.parts[1])
        ) and (_has_whole_factor(edit)):
            told = (
                f"{at}{shown}, and 1 / {count} is a division of two ints, which gives 0. The factor 0 makes "
                f"`{division.left}` vanish: `{division}` is 0 for all inputs."
            )
            return Derivation(
                told, f"`{division}` converts {count} to float before it divides, so that nothing is cut off"
            )
        told = (
            f"{at}{shown}. Without the division, the sum of {count} values stands where their mean belongs: it is "
            f"{count} times too large."
        )
        return Derivation(told, f"`{division}` divides by the number of values, {count}")
    return None


def _has_whole_factor(edit: Edit) -> bool:
    def count(side: int) -> int:
        return sum(
            isinstance(one, Binary) and one.sign == "/" and one.left == Number("1") for one in walk(edit.parts[side])
        )

    return count(1) > count(0)


@derives("wrong_correction")
def _unbiased(edit: Edit) -> Derivation | None:
    old, new = edit.nodes
    if not isinstance(old, Number) or not isinstance(new, Number) or new.whole < 1:
        return None
    count, less = old.whole, new.whole
    told = (
        f"A row has {count} elements, and the sum of squares is divided by {less}: that is the unbiased estimate. The "
        f"variance is {count / less:.4f} times what the norm takes, so that 1 / sqrt(variance) is "
        f"{100 * (1 - sqrt(less / count)):.2g} % too small, and with it every normalised value, toward 0."
    )
    return Derivation(told, f"a norm takes the mean of the {count} squares, which is their sum by {count}")


def _gelu(x: float, factor: float = 0.70710677) -> float:
    return 0.5 * x * (1 + erf(x * factor))


def _tanh_gelu(x: float, cubic: float = 0.044715) -> float:
    return 0.5 * x * (1 + tanh(0.7978846 * (x + cubic * x**3)))


@derives("approximate_gelu")
def _by_tanh(edit: Edit) -> Derivation:
    worst = max((n / 100 for n in range(500)), key=lambda x: abs(_gelu(x) - _tanh_gelu(x)))
    told = (
        f"This is the approximation by tanh. It is close, but not equal: at x = {worst:.2f} it gives "
        f"{_tanh_gelu(worst):.6f}, and the exact GELU is {_gelu(worst):.6f}, a difference of "
        f"{abs(_gelu(worst) - _tanh_gelu(worst)):.1e}, thousands of roundings of float32. At 0 and for large x the two "
        "agree, so the mean error is small."
    )
    return Derivation(
        told, "the reference has `approximate='none'`, which is 0.5 x (1 + erf(x / √2)), and 1/√2 is 0.70710677"
    )


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
def _other_constant(edit: Edit) -> Derivation | None:
    old, new = edit.nodes
    text = str(new)
    found = next((entry for end, entry in _SLIPS.items() if end in text and end not in str(old)), None)
    if found is None:
        return None
    right, wrong, why = found
    values = [f"{wrong(x):.4f} instead of {right(x):.4f} at x = {x:g}" for x in (1.0, -2.0)]
    return Derivation(f"The function gives {values[0]}, and {values[1]}; at x = 0 it is right.", why)


@derives("unstable_softmax")
def _overflowing_softmax(edit: Edit) -> Derivation:
    told = (
        f"exp(x) passes the largest float32, 3.4e38, at x = {_LARGEST_EXPONENT}. A value of 100 in a row makes its "
        "exponential and the sum infinite: its own quotient is inf / inf = NaN, and those of the other elements are "
        "something / inf = 0. As long as all values are smaller, the quotients are right, since a common factor "
        "cancels."
    )
    why = (
        "with the row's maximum m taken away the largest exponent is 0 and the sum lies between 1 and the length of "
        "the row; exp(x - m) / sum exp(x - m) is the same quotient, since exp(-m) cancels"
    )
    return Derivation(told, why)


@derives("unstable_softplus")
def _overflowing_softplus(edit: Edit) -> Derivation | None:
    old, _ = edit.nodes
    choice = old if isinstance(old, Choice) else None
    bound = float(str(choice.condition.right).rstrip("f")) if choice and isinstance(choice.condition, Binary) else 20.0
    told = (
        f"expf overflows to infinity for arguments above {_LARGEST_EXPONENT}, and log1pf(inf) is inf: at 100 the "
        "result is inf instead of 100. Below that, nothing shows."
    )
    why = (
        f"above {bound:g}, log(1 + exp(x)) is x + log(1 + exp(-x)), and exp(-{bound:g}) = {exp(-bound):.1e} is below "
        f"what float32 can tell beside {bound:g}, so that x itself is exact"
    )
    return Derivation(told, why)
