"""What is left: equations, comparisons, arguments, and figures whose words do not say what they count."""

import re
from collections.abc import Iterator
from fractions import Fraction

from musadata.teacher.grounding.claims import Claim, ClaimKind, Outcome, judged, unchecked
from musadata.teacher.grounding.expressions import evaluate
from musadata.teacher.grounding.lexicon import LIMITS
from musadata.teacher.grounding.quantities import Quantity
from musadata.teacher.grounding.view import View

_CEILING = re.compile(r"\b(?:ceil\w*|round\w*|floor\w*|remainder|integer|whole|div)\b")
_SMALLEST = 3  # smaller numbers are everywhere
_LEAST_SUSPECT = 17  # smaller numbers may be a writer's choice or a count of what no fact holds
_SHORT = Fraction(1, 10**6)
_ARGUMENT = re.compile(
    r"\b(?P<name>kernel(?:[ _]size)?|padding|dilation|groups|eps|epsilon|exponent|"
    r"momentum|negative[ _]slope|upscale[ _]factor|k|split[ _]size|shifts?|correction|"
    r"delta|beta|alpha)(?: (?:of|is|=|:|by|size))* $"
)


def judge_equations(view: View) -> Iterator[Claim]:
    """Every derivation has to be right, whatever it derives."""
    for at, item in enumerate(view.items):
        quantity = item.value
        if isinstance(quantity, Quantity) and len(quantity.sides) > 1:
            holds = _is_true(view, quantity)
            yield judged(ClaimKind.ARITHMETIC, item.text, holds, "is false")
            if holds and quantity.value.denominator == 1 and view.is_derived(at, view.facts.known):
                view.stated.results.add(int(quantity.value))
    for match in re.finditer(r"\bQ(\d+) (<|>|<=|>=) Q(\d+)\b", view.skeleton):
        one, two = view.quantity(int(match[1])).value, view.quantity(int(match[3])).value
        holds = {"<": one < two, ">": one > two, "<=": one <= two, ">=": one >= two}[match[2]]
        yield judged(
            ClaimKind.ARITHMETIC,
            f"{view.items[int(match[1])].text} {match[2]} {view.items[int(match[3])].text}",
            holds,
            "is false",
        )


def _is_true(view: View, quantity: Quantity) -> bool:
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
        options = [value * scale for scale in scales] if last else [value]
        spans = [tolerance * scale for scale in scales] if last else [tolerance]
        if any(abs(first - option) <= span for option, span in zip(options, spans, strict=True)):
            continue
        if (
            value.denominator == 1
            and abs(first - value) < 1
            and ("/" in quantity.sides[0] and _CEILING.search(view.skeleton))
        ):
            continue
        if last and quantity.unit in ("percent",) and abs(first - value / 100) <= half / 100 + _SHORT:
            continue
        return False
    return True


def judge_figures(view: View) -> Iterator[Claim]:
    """Figures that no other judge took: known or not."""
    for at, quantity in view.open_figures():
        view.taken.add(at)
        argument = _ARGUMENT.search(view.before(at, 40))
        if argument and quantity.value.denominator == 1:
            name = argument["name"].replace(" ", "_")
            values = view.facts.argument(view.facts.tensors, re.escape(name))
            if values:
                yield judged(
                    ClaimKind.ARGUMENT, view.words(at), quantity.value in values, f"not the {argument['name']}"
                )
                continue
        yield _figure(view, at, quantity)


def _figure(view: View, at: int, quantity: Quantity) -> Claim:
    text = view.words(at)
    known = view.facts.known | view.stated.results | view.stated.blocks | LIMITS
    if quantity.unit or quantity.options[0][1] or quantity.value.denominator != 1 or view.is_approximate(at):
        near = any(quantity.is_near(n, 0.06 if view.is_approximate(at) else 0) for n in known)
        return Claim(ClaimKind.NUMBER, text, Outcome.CONFIRMED) if near else unchecked(ClaimKind.NUMBER, text)
    value = int(quantity.value)
    if view.is_derived(at, known):
        return Claim(ClaimKind.ARITHMETIC, text, Outcome.CONFIRMED)
    if abs(value) < _SMALLEST or abs(value) in known:
        return Claim(ClaimKind.NUMBER, text, Outcome.CONFIRMED if abs(value) >= _SMALLEST else Outcome.UNCHECKED)
    if re.search(
        r"\b(?:version|section|step|chapter|table|figure|sm_|compute capability|stage|line)(?: of)? $",
        view.before(at, 30),
    ):
        return unchecked(ClaimKind.NUMBER, text)
    if abs(value) < _LEAST_SUSPECT:
        return unchecked(ClaimKind.NUMBER, text)
    return judged(ClaimKind.NUMBER, text, False, "no such figure in the facts")
