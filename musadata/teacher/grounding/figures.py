"""Claims in figures: what each figure counts by its words (`rules.yaml`), and which values the trace has for that."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from musadata.teacher.grounding.claims import Claim, ClaimKind, Outcome, judged, unchecked
from musadata.teacher.grounding.context import WARP, View
from musadata.teacher.grounding.equations import is_derived
from musadata.teacher.grounding.expressions import numbers_in
from musadata.teacher.grounding.facts import products, strides_of
from musadata.teacher.grounding.lexicon import LIMITS, RULES, WORDS, expand
from musadata.teacher.grounding.values import ALLOWED, Figure, reduced_by

_DIMENSION_NOUN = re.compile(expand("{dimension}\\b"))
_SIZES = frozenset((ClaimKind.COUNT, ClaimKind.SHAPE, ClaimKind.BYTES))
_PARTS = frozenset((ClaimKind.COUNT, ClaimKind.SHAPE, ClaimKind.STRIDE))
_VARIABLE = re.compile(r"\b[a-z] = $")
_LEAST_SUSPECT = 64  # smaller numbers may be a writer's choice or count what no fact holds


@dataclass(frozen=True)
class _Rule:
    kind: str
    before: re.Pattern[str] | None
    after: re.Pattern[str] | None
    unless: re.Pattern[str] | None


def _compiled(rule: dict[str, str], side: str, end: str = "") -> re.Pattern[str] | None:
    return re.compile(f"(?:{expand(rule[side])}){end}") if side in rule else None


_RULES = [
    _Rule(rule["kind"], _compiled(rule, "before", "$"), _compiled(rule, "after"), _compiled(rule, "unless_after"))
    for rule in RULES["figures"]
]


def judge_figures(view: View) -> Iterator[Claim]:
    yield from _rows_of(view)
    yield from _changes(view)
    for at, _ in view.open_figures():
        if at in view.taken:
            continue
        view.taken.add(at)
        kind, noun, axis = _kind_of(view, at)
        if _is_offset(view, at):
            yield unchecked(ClaimKind.INDEX_FORMULA, view.words(at))
            continue
        figure = Figure(view, at, noun, axis)
        if kind not in ALLOWED:
            yield _unknown(figure) if kind != "other" else unchecked(ClaimKind.NUMBER, view.words(at))
            continue
        claims, values_of, wrong = ALLOWED[kind]
        yield _judge(figure, claims, values_of(figure), wrong)


def _is_offset(view: View, at: int) -> bool:
    """Whether it is a sum of indices times strides, 2 * 144 + 38 * 1."""
    terms = view.quantity(at).sides[0].split(" + ")
    factors = [[int(n) for n in term.split(" * ") if n.isdigit()] for term in terms]
    strides = {step for stride in view.facts.strides for step in stride}
    return len(terms) > 1 and all(len(pair) == 2 and strides.intersection(pair) for pair in factors)


def _judge(figure: Figure, kind: ClaimKind, allowed: set[float] | None, wrong: str) -> Claim:
    view, at = figure.view, figure.at
    text = view.words(at)
    if not allowed or view.is_denied(at):
        return unchecked(kind, text)
    if view.holds(at, allowed):
        return judged(kind, text, True, "")
    if not figure.subject.is_certain and kind in _SIZES and WORDS.unreal.search(figure.clause):
        return unchecked(kind, text)
    if view.stated.program and not figure.subject.is_certain and kind in _PARTS and WORDS.of_part.search(view.skeleton):
        return unchecked(kind, text)  # what a thread of the program or a window has is not in a trace
    sides = view.quantity(at).sides
    is_split = "/" in sides[0] or sides[0].isdigit()  # what a thread or block gets
    if is_split and not figure.subject.is_strict and is_derived(view, at, view.facts.known):
        return unchecked(kind, text)
    return judged(kind, text, False, wrong)


def _kind_of(view: View, at: int) -> tuple[str, str, str]:
    """What a figure counts, its noun, and the number of an axis that its words name."""
    before, after = view.before(at, 90), view.after(at, 70)
    for rule in _RULES:
        one, two = rule.before and rule.before.search(before), rule.after and rule.after.match(after)
        if (rule.before and not one) or (rule.after and not two) or (rule.unless and rule.unless.match(after)):
            continue
        named = (one.groupdict() if one else {}) | (two.groupdict() if two else {})
        if named.get("axis"):
            view.taken.add(int(named["axis"]))
        return rule.kind, named.get("noun") or "", named.get("axis") or ""
    return "", "", ""


def _unknown(figure: Figure) -> Claim:
    """A figure whose words do not say what it counts: wrong if it is exact, large, and follows from nothing."""
    view, at = figure.view, figure.at
    quantity, text, known = view.quantity(at), view.words(at), view.facts.known | view.stated.results | LIMITS
    if quantity.unit or quantity.value.denominator != 1 or quantity.options[0][1] or view.is_approximate(at):
        return unchecked(ClaimKind.NUMBER, text)
    value = abs(int(quantity.value))
    if _VARIABLE.search(view.before(at, 12)):  # "for i = 60000"
        return unchecked(ClaimKind.NUMBER, text)
    if value in known:
        return Claim(ClaimKind.NUMBER, text, Outcome.CONFIRMED)
    others = {int(one.value) for n, one in view.all_figures() if n != at and one.value.denominator == 1}
    others |= view.stated.blocks | view.stated.tiles | {1, 2, 4, 8, WARP}
    terms = numbers_in(quantity.sides[0])
    if len(terms) > 1 and all(term in known for term in terms):
        return unchecked(ClaimKind.NUMBER, text)
    if value < _LEAST_SUSPECT or any(_follows(value, other, known | others) for other in others - {0}):
        return unchecked(ClaimKind.NUMBER, text)
    return judged(ClaimKind.NUMBER, text, False, "no such figure in the facts")


def _follows(value: int, other: int, known: frozenset[int]) -> bool:
    multiples = {value * other + n for n in (0, -1, 1)} | {value * other - n for n in range(min(other, 1025))}
    if not multiples.isdisjoint(known) or {value - other, value + other, other - value} & known:
        return True
    return value % other == 0 and value // other in known


def _rows_of(view: View) -> Iterator[Claim]:
    """ "100 rows of 32 elements": together a tensor, and 32 the length of a row."""
    for match in WORDS.rows_of.finditer(view.skeleton):
        one, two = int(match["rows"]), int(match["length"])
        if {one, two} & view.taken or any(view.quantity(n).value.denominator != 1 for n in (one, two)):
            continue
        view.taken.update((one, two))
        facts, rows, length = view.facts, int(view.quantity(one).value), int(view.quantity(two).value)
        lengths = {n for fact in facts.tensors for n in (*strides_of(fact.shape), *fact.shape[-1:])}
        lengths |= reduced_by(view, facts.tensors)
        alike = sum(math.prod(fact.shape) == length for fact in facts.tensors)  # "two vectors of 257"
        text = f"{view.items[one].text} rows of {view.items[two].text}"
        if _DIMENSION_NOUN.match(view.after(two, 30)):  # "2 groups of 7 channels"
            lengths |= facts.sizes
        holds = rows <= alike or (length in lengths and rows * length in facts.partial)
        yield judged(ClaimKind.COUNT, text, holds, "no tensor has these rows")


def _changes(view: View) -> Iterator[Claim]:
    """ "The convolution shortens 14 to 13": a size of its operand, and one of its result."""
    for match in WORDS.change.finditer(view.skeleton):
        one, two = int(match["old"]), int(match["new"])
        made = view.subject(two).made
        if not made or {one, two} & view.taken or view.quantity(one).factors:
            continue
        old = {n for fact in made for operand in view.facts.operands(fact) for n in products(operand.shape)}
        new = {n for fact in made for n in products(fact.shape)}
        if view.quantity(one).value in (0, 1) or not (old and new):
            continue
        ends = view.holds(one, set(map(float, old))), view.holds(two, set(map(float, new)))
        if any(ends):  # else it is about something else
            view.taken.update((one, two))
            text = f"{view.items[one].text} to {view.items[two].text}"
            yield judged(ClaimKind.SHAPE, text, all(ends), "not what this changes")
