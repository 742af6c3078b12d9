"""A sentence beside the facts of a trace, with what the judges of claims share."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from musadata.records import TensorFact
from musadata.teacher.grounding.expressions import numbers_in
from musadata.teacher.grounding.facts import Facts
from musadata.teacher.grounding.lexicon import MACHINE
from musadata.teacher.grounding.quantities import Quantity
from musadata.teacher.grounding.reading import Item, ItemKind, Sentence
from musadata.teacher.grounding.subjects import Mention, Subjects

ADJECTIVES = (
    r"(?:(?!(?:of|in|per|and|or|to|at|from|over|by|is|are|the|for|with|on|as|"
    r"than|a|an|each|every|that|which|along|into|out|so|if|Q\d+) )(?:[a-z][a-z'-]*|"
    r"[TOD]\d+) ){0,3}"
)
_APPROXIMATE = re.compile(
    r"(?:\b(?:about|around|roughly|approximately|nearly|almost|circa|some|close to|"
    r"just (?:over|under)|order of|approx|slightly (?:over|under|more than|less than))(?: an?)?(?: "
    r"total of)? |~ )$"
)
_RELATIONS = (
    (">=", r"(?:at least|no (?:less|fewer) than|not (?:less|fewer) than|>=|minimum of|no below)"),
    ("<=", r"(?:at most|no (?:more|greater|larger) than|not (?:more|exceed)(?: than)?|<=|up to|maximum of|not exceed)"),
    (">", r"(?:more than|greater than|larger than|bigger than|exceeds?|exceeding|above|>|upwards of)"),
    ("<", r"(?:less than|fewer than|smaller than|under|below|<)"),
)
_RELATION = tuple(
    (sign, re.compile(rf"\b{words} (?:about |the )?$" if words[3].isalpha() else words)) for sign, words in _RELATIONS
)
_SIGN = re.compile(r"(>=|<=|>|<) $")
_NEAR = 0.06
WARP, MOST_THREADS = int(MACHINE["warp"]), int(MACHINE["most_threads"])


@dataclass
class Stated:
    """What a text says elsewhere: sizes of thread blocks, and results of equations that follow from facts."""

    blocks: frozenset[int] = frozenset()
    tiles: frozenset[int] = frozenset()
    results: set[int] = field(default_factory=set)


@dataclass
class View:
    """One sentence and one trace.

    Attributes:
        taken: numbers of the items that a judge has dealt with.
    """

    sentence: Sentence
    facts: Facts
    stated: Stated
    taken: set[int] = field(default_factory=set)

    @cached_property
    def subjects(self) -> Subjects:
        return Subjects(self.sentence, self.facts)

    def is_derived(self, at: int, known: Collection[int]) -> bool:
        """Whether a figure is derived, as shown, from `known` ones, block sizes and figures derived before."""
        quantity = self.quantity(at)
        if len(quantity.sides) < 2:
            return False
        parts = [abs(number) for side in quantity.sides[:-1] for number in numbers_in(side.removeprefix("~ "))]
        results = self.stated.results
        others = results | {result - 1 for result in results} | self.stated.blocks | self.stated.tiles | {0, 1, 2, WARP}
        return bool(parts) and all(number in known or number in others for number in parts)

    @property
    def items(self) -> list[Item]:
        return self.sentence.items

    @property
    def skeleton(self) -> str:
        return self.sentence.skeleton

    def open_figures(self) -> list[tuple[int, Quantity]]:
        """Figures that no judge has taken yet."""
        found = []
        for at, item in enumerate(self.items):
            if at not in self.taken and isinstance(item.value, Quantity):
                found.append((at, item.value))
        return found

    def quantity(self, at: int) -> Quantity:
        value = self.items[at].value
        assert isinstance(value, Quantity)
        return value

    def before(self, at: int, length: int = 80) -> str:
        return self.sentence.before(at, length)

    def after(self, at: int, length: int = 80) -> str:
        return self.sentence.after(at, length)

    def relation(self, at: int) -> str:
        """How a figure is compared: "=", "<", "<=", ">" or ">="."""
        before = self.before(at, 40)
        sign = _SIGN.search(before)
        if sign:
            return sign[1]
        for name, pattern in _RELATION:
            if pattern.search(before):
                return name
        return "="

    def is_approximate(self, at: int) -> bool:
        return bool(_APPROXIMATE.search(self.before(at, 40)))

    def holds(self, at: int, allowed: Iterable[float]) -> bool:
        """Whether the figure stands in its relation to one of the values."""
        quantity, relation = self.quantity(at), self.relation(at)
        tolerance = _NEAR if self.is_approximate(at) else 0.0
        if relation == "=":
            return any(quantity.is_near(value, tolerance) for value in allowed)
        compare = {"<": Fraction.__lt__, "<=": Fraction.__le__, ">": Fraction.__gt__, ">=": Fraction.__ge__}[relation]
        return any(compare(Fraction(value), v) for value in allowed for v, _ in quantity.options)

    def words(self, at: int, around: int = 4) -> str:
        """A figure with some words around it, as the text has them."""
        chosen = self.items[max(0, at - 1) : at + around]
        return " ".join(item.text for item in chosen)

    def subject(self, at: int, reach: int = 40) -> Mention | None:
        return self.subjects.of(at, reach)

    def subject_facts(self, at: int) -> tuple[TensorFact, ...]:
        found = self.subject(at)
        return found.facts if found else ()

    def noun(self, at: int, nouns: str) -> re.Match[str] | None:
        """The noun behind a figure, with adjectives at most between."""
        return re.match(rf"{ADJECTIVES}(?:-? ?)(?P<noun>{nouns})\b", self.after(at, 60))

    def of_kind(self, kind: ItemKind) -> list[tuple[int, Item]]:
        return [(at, item) for at, item in enumerate(self.items) if item.kind is kind]
