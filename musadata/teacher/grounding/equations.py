"""Claims of pure arithmetic: every derivation has to be right, whatever it derives."""

import re
from collections.abc import Collection, Iterator
from fractions import Fraction

from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.context import WARP, View
from musadata.teacher.grounding.expressions import evaluate, numbers_in
from musadata.teacher.grounding.quantities import Quantity

_CEILING = re.compile(r"\b(?:ceil\w*|round\w*|floor\w*|remainder|integer|whole|div)\b")
_SHORT = Fraction(1, 10**6)
_MULTIPLE = re.compile(
    r"\bQ(\d+) (?P<is>(?:[\w']+ ){1,4}?)(?:an? )?(?:(?:exact|integer|whole) )?"
    r"(?:multiple of|divisible by|evenly divisible by) Q(\d+)\b"
)
_DENIED = re.compile(r"\b(?:not|never|no|neither|cannot|if|were|would)\b|n't")


def judge_equations(view: View) -> Iterator[Claim]:
    for at, quantity in view.all_figures():
        if len(quantity.sides) > 1:
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
    scales = [value / quantity.value for value, _ in quantity.options] if quantity.value else [Fraction(1)]
    first = None
    for side in quantity.sides:
        value = evaluate(side.removeprefix("~ "))
        if value is None:
            continue
        if first is None:
            first = value
            continue
        places = re.fullmatch(r"(?:~ )?\d+(?:\.(\d+))?", side)
        half = Fraction(1, 2) / 10 ** len(places[1]) if places and places[1] else Fraction(0)
        tolerance = max(half, abs(value) * Fraction(6, 100) if side.startswith("~") else Fraction(0), _SHORT)
        last = side is quantity.sides[-1]
        options = [(value * scale, tolerance * scale) for scale in scales] if last else [(value, tolerance)]
        is_rounded = "/" in quantity.sides[0] and _CEILING.search(view.skeleton)
        if any(abs(first - option) <= span for option, span in options) or (
            is_rounded and value.denominator == 1 and abs(first - value) < 1
        ):
            continue
        if last and quantity.unit == "percent" and abs(first - value / 100) <= half / 100 + _SHORT:
            continue
        return False
    return True
