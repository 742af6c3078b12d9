"""Claims of pure arithmetic: every derivation has to be right, whatever it derives."""

import re
from collections.abc import Collection, Iterator
from fractions import Fraction

from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.context import WARP, View
from musadata.teacher.grounding.expressions import evaluate, numbers_in
from musadata.teacher.grounding.quantities import Quantity, half_digit

_CEILING = re.compile(r"\b(?:ceil\w*|round\w*|floor\w*|remainder|integer|whole|div)\b")
_OF_INDICES = re.compile(r"\b(?:starts?|begins?|index|indices|windows?|lanes?|reads?|takes?|element \()\b")
_SHORT = Fraction(1, 10**6)
_ESTIMATE = Fraction(6, 100)
_MULTIPLE = re.compile(
    r"\bQ(\d+) (?P<is>(?:[\w']+ ){0,2}(?:, (?:which is )?|(?:[\w']+ ){0,2}))(?:an? )?(?:(?:exact|integer|whole) )?"
    r"(?:multiple of|divisible by|evenly divisible by) Q(\d+)\b"
)
_DENIED = re.compile(r"\b(?:not|never|no|neither|cannot|if|were|would)\b|n't")


def judge_equations(view: View) -> Iterator[Claim]:
    for at, quantity in view.all_figures():
        if len(quantity.sides) > 1 and " + " not in view.before(at, 60):  # "4 (a table) + 3 = 7" begins before
            holds = _is_true(view, quantity)
            yield judged(ClaimKind.ARITHMETIC, view.items[at].text, holds, "is false")
            if holds and quantity.value.denominator == 1 and is_derived(view, at, view.facts.known):
                view.stated.results.add(int(quantity.value))
    for match in re.finditer(r"\bQ(\d+) (<|>|<=|>=) Q(\d+)\b", view.skeleton):
        one, two = view.quantity(int(match[1])).value, view.quantity(int(match[3])).value
        holds = {"<": one < two, ">": one > two, "<=": one <= two, ">=": one >= two}[match[2]]
        text = f"{view.items[int(match[1])].text} {match[2]} {view.items[int(match[3])].text}"
        yield judged(ClaimKind.ARITHMETIC, text, holds, "is false")
    for match in _MULTIPLE.finditer(view.skeleton):
        one, two = view.quantity(int(match[1])).value, view.quantity(int(match[3])).value
        if two and not re.search(r"\b(?:if|were|would)\b", match["is"]):
            holds = (one % two == 0) != bool(_DENIED.search(match["is"]))
            yield judged(ClaimKind.ARITHMETIC, view.words(int(match[1]), 8), holds, "is false")


def is_derived(view: View, at: int, known: Collection[int]) -> bool:
    """Whether a figure is derived, as shown, from `known` ones, block sizes and figures derived before."""
    quantity = view.quantity(at)
    if len(quantity.sides) < 2:
        return False
    parts = [abs(number) for side in quantity.sides[:-1] for number in numbers_in(side.removeprefix("~ "))]
    results = view.stated.results
    others = results | {result - 1 for result in results} | view.stated.blocks | view.stated.tiles
    others |= {0, 1, 2, 3, 4, 8, WARP}
    return bool(parts) and all(number in known or number in others for number in parts)


def _is_true(view: View, quantity: Quantity) -> bool:
    """Whether all sides are the same number, as far as each is written out; a division may be rounded to either side
    where the words say so."""
    values = [(side, evaluate(side.removeprefix("~ "))) for side in quantity.sides]
    known = [(side, value) for side, value in values if value is not None]
    first = known[0][1] if known else None
    is_rounded = "/" in quantity.sides[0] and (_CEILING.search(view.skeleton) or _OF_INDICES.search(view.skeleton))
    for side, value in known[1:]:
        assert first is not None
        options = quantity.options if side is quantity.sides[-1] else ((value, half_digit(side.removeprefix("~ "))),)
        if side.startswith("~"):
            options = tuple((option, max(half, _near(side, option))) for option, half in options)
        if any(abs(first - option) <= max(half, _SHORT) for option, half in options):
            continue
        if is_rounded and value.denominator == 1 and abs(first - value) < 1:
            continue
        if quantity.unit == "percent" and any(abs(first / 100 - option) <= half + _SHORT for option, half in options):
            continue
        return False
    return True


def _near(side: str, value: Fraction) -> Fraction:
    """How far "~ 4.123" and "~ 1000" may be off: figures with many digits are rounded, others are estimates."""
    digits = side.removeprefix("~ ").replace("- ", "-")
    if len(digits.strip("-0").replace(".", "").rstrip("0")) > 2 or "." in digits:
        return 2 * half_digit(digits)
    return abs(value) * _ESTIMATE
