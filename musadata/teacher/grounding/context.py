"""A sentence beside the facts of a trace: which tensors it speaks of, and how a figure in it is meant."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from musadata.records import TensorFact
from musadata.teacher.grounding.facts import RESHAPES, Facts, base_name
from musadata.teacher.grounding.launches import Launch
from musadata.teacher.grounding.lexicon import LEXICON, MACHINE, WORDS
from musadata.teacher.grounding.quantities import Quantity
from musadata.teacher.grounding.reading import Item, ItemKind, Sentence

_ROLES = {word: role for role, words in LEXICON["roles"].items() for word in words}
_ALIASES: dict[str, list[str]] = LEXICON["aliases"]
_LINKS = frozenset(LEXICON["links"].split())
_OPERANDS = frozenset(LEXICON["of_operands"].split())
_OF = frozenset(LEXICON["of"].split())
_BREAK = frozenset(LEXICON["breaks"].split())
_ORDINALS: dict[str, int] = LEXICON["ordinals"]
_MOST_LINKS = 9
_RELATIONS = [
    (sign, re.compile(rf"(?:{words})(?: about| the| only)* $")) for sign, words in LEXICON["relations"].items()
]
_NEAR = 0.06
_DESCRIBES = (ItemKind.TUPLE, ItemKind.DTYPE)
WARP, MOST_THREADS = int(MACHINE["warp"]), int(MACHINE["most_threads"])


@dataclass(frozen=True)
class Mention:
    """Tensors that some words name.

    Attributes:
        at: the number of the item; of several, the last.
        facts: the tensors, never none.
        by_operator: the words name an operator, and `facts` are its results.
    """

    at: int
    facts: tuple[TensorFact, ...]
    by_operator: bool = False


@dataclass(frozen=True)
class Subject:
    """What a figure is about.

    Attributes:
        facts: the tensors; all of the trace if no words name any.
        is_named: words name them.
        is_certain: grammar ties the figure to them; else they only stand in the same clause.
        made: results of operators that the words name.
        mentioned: without operands of what is named.
    """

    facts: tuple[TensorFact, ...]
    is_named: bool = False
    is_certain: bool = False
    made: tuple[TensorFact, ...] = ()
    mentioned: tuple[TensorFact, ...] = ()

    @property
    def is_strict(self) -> bool:
        """Whether only these tensors can be meant, and no operand or view of an operator's result."""
        return self.is_certain and not self.made


@dataclass
class Stated:
    """What a text says elsewhere: sizes of thread blocks and tiles, and results of equations that follow from facts.

    Attributes:
        program: the CUDA C++ that the text is about; "" if it is about none.
        launches: its launches at the sizes of the trace, as far as they follow from these.
    """

    blocks: frozenset[int] = frozenset()
    tiles: frozenset[int] = frozenset()
    results: set[int] = field(default_factory=set)
    program: str = ""
    launches: tuple[Launch, ...] = ()


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

    @property
    def items(self) -> list[Item]:
        return self.sentence.items

    @property
    def skeleton(self) -> str:
        return self.sentence.skeleton

    def open_figures(self) -> list[tuple[int, Quantity]]:
        """Figures that no judge has taken yet."""
        return [(at, quantity) for at, quantity in self.sentence.figures if at not in self.taken]

    def all_figures(self) -> list[tuple[int, Quantity]]:
        return self.sentence.figures

    def of_kind(self, kind: ItemKind) -> list[tuple[int, Item]]:
        return self.sentence.by_kind.get(kind, [])

    def quantity(self, at: int) -> Quantity:
        value = self.items[at].value
        assert isinstance(value, Quantity)
        return value

    def before(self, at: int, length: int = 80) -> str:
        return self.sentence.before(at, length)

    def after(self, at: int, length: int = 80) -> str:
        return self.sentence.after(at, length)

    def words(self, at: int, around: int = 4) -> str:
        """A figure with some words around it, as the text has them."""
        return " ".join(item.text for item in self.items[max(0, at - 1) : at + around])

    def is_approximate(self, at: int) -> bool:
        return bool(WORDS.approximate.search(self.before(at, 40)))

    def is_denied(self, at: int) -> bool:
        """Whether it stands for what is not so: "instead of 64", "and not 64"."""
        return bool(WORDS.other_than.search(self.before(at, 40)))

    def holds(self, at: int, allowed: Iterable[float]) -> bool:
        """Whether the figure stands in its relation (=, <, <=, >, >=) to one of the values."""
        quantity, before = self.quantity(at), self.before(at, 40)
        relation = next((sign for sign, words in _RELATIONS if words.search(before)), "=")
        tolerance = _NEAR if self.is_approximate(at) else 0.0
        if relation == "=":
            return any(quantity.is_near(value, tolerance) for value in allowed)
        compare = {"<": Fraction.__lt__, "<=": Fraction.__le__, ">": Fraction.__gt__, ">=": Fraction.__ge__}[relation]
        return any(compare(Fraction(value), v) for value in allowed for v, _ in quantity.options)

    @cached_property
    def mentions(self) -> list[Mention]:
        """What the sentence names; "the input of the softmax" is one mention, of the softmax's operands."""
        found: list[Mention] = []
        for mention in self._mentions():
            last = found[-1] if found else None
            joined = self._joined(last, mention) if last else None
            if joined:
                found[-1] = joined
            else:
                found.append(mention)
        return found

    def _mentions(self) -> Iterator[Mention]:
        for at, item in enumerate(self.items):
            facts = self._named(at, item)
            if facts and item.kind is ItemKind.OPERATOR:
                made = Mention(at, facts, by_operator=True)
                yield Mention(at, self._operands(made)) if WORDS.of_operand.search(self.before(at, 30)) else made
            elif facts:
                yield Mention(at, facts)

    def _joined(self, one: Mention, two: Mention) -> Mention | None:
        between = [item.text for item in self.items[one.at + 1 : two.at]]
        first, second = (_ROLES.get(self.items[mention.at].text.lower(), "") for mention in (one, two))
        if one.by_operator and two.by_operator and not between:  # "the expanded norm"
            return Mention(two.at, tuple(dict.fromkeys((*one.facts, *two.facts))), by_operator=True)
        if two.by_operator and first and between and set(between) <= _OF:  # "the input of the softmax"
            return Mention(two.at, self._operands(two) if first == "input" else two.facts, first != "input")
        if one.by_operator and second and (not between or between == ["'s"]):  # "the softmax input"
            return Mention(two.at, self._operands(one) if second == "input" else one.facts, second != "input")
        is_turned = not between and self.items[one.at].text.lower().endswith("ed")  # "the transposed `k`"
        if (
            one.by_operator and not two.by_operator and (is_turned or (between and set(between) <= _OF))
        ):  # "the transpose of `k`"
            names = {fact.name for fact in two.facts}
            chosen = tuple(fact for fact in one.facts if names.intersection(fact.operands))
            return Mention(two.at, chosen or one.facts, by_operator=True)
        return None

    def _operands(self, mention: Mention) -> tuple[TensorFact, ...]:
        firsts = [self.facts.operands(fact)[:1] for fact in mention.facts]
        return tuple(operand for first in firsts for operand in first) or mention.facts

    def _named(self, at: int, item: Item) -> tuple[TensorFact, ...]:
        facts, word = self.facts, item.text.lower()
        if item.kind is ItemKind.TENSOR:
            return (facts.by_name[item.text],) if item.text in facts.by_name else ()
        if item.kind is ItemKind.OPERATOR and str(item.value).startswith("aten."):
            name = str(item.value)
            return tuple(f for f in facts.tensors if f.operator == name or f.operator.startswith(name + "."))
        if item.kind is ItemKind.OPERATOR and WORDS.noun_only.search(self.before(at, 24)):
            return ()  # "`t` is a view"
        if item.kind is ItemKind.OPERATOR:
            return self._ordinal(at, facts.of_word(str(item.value)))
        if item.kind is not ItemKind.WORD:
            return ()
        role = _ROLES.get(word)
        counted = at and self.items[at - 1].kind is ItemKind.QUANTITY and not WORDS.countable.match(self.after(at, 20))
        is_part = at < 2 and self.sentence.text[:1].islower()  # "…; the result is (4, 8)": of what stands before
        if role and (counted or is_part or WORDS.indefinite.search(self.before(at, 12))):
            return ()  # "16 results", "per output"
        if word == "returns" and WORDS.whole_task.search(self.before(at, 20)):
            return facts.outputs
        match role:
            case "output":
                return facts.outputs
            case "parameter":
                return facts.of_role("parameter", "buffer")
            case str(role):
                return facts.of_role(role)
        names = [name for name in _ALIASES.get(word, ()) if name in facts.by_name]
        if names:
            return (facts.by_name[names[0]],)
        if word in ("bias", "weight"):
            return tuple(f for f in facts.tensors if f.name.rpartition(".")[2].startswith(word))
        return ()

    def _ordinal(self, at: int, facts: tuple[TensorFact, ...]) -> tuple[TensorFact, ...]:
        """Of several results the one in "the second softmax"."""
        place = _ORDINALS.get(self.items[at - 1].text.lower()) if at else None
        made = [fact for fact in facts if base_name(fact.operator) not in RESHAPES]
        several = sum(item.text.lower() in _ORDINALS for item in self.items) > 1  # "the first …, the second one"
        if place is None or several or len(made) < 2 or not -len(made) <= place < len(made):
            return facts
        return self.facts.views_of((made[place],))

    def subject(self, at: int) -> Subject:
        """The tensors that a figure or tuple is about."""
        behind = self._behind(at)
        if behind:
            return Subject(behind.facts, True, True, behind.facts if behind.by_operator else ())
        near = [mention for mention in self.mentions if mention.at < at]
        if near:
            items = self.items[near[-1].at + 1 : at]
            between = [item.text.lower() for item in items if item.kind not in _DESCRIBES]
            if len(between) < len(items):  # "`w`, [192, 128] in fp32, takes 98304 bytes"
                between = [word for word in between if word != ","]
            if len(between) <= _MOST_LINKS and all(word in _LINKS for word in between):
                return self._certain(near[-1], between)
        clause = [mention for mention in self.mentions if self._same_clause(mention.at, at)] or self.mentions
        if not clause:
            return Subject(self.facts.tensors)
        named = tuple(fact for mention in clause for fact in mention.facts)
        made = tuple(fact for mention in clause if mention.by_operator for fact in mention.facts)
        return Subject(self.facts.tensors, True, False, made, named)

    def _certain(self, mention: Mention, between: list[str]) -> Subject:
        if not mention.by_operator:
            return Subject(mention.facts, True, True, (), mention.facts)
        verb = self.items[mention.at].text.lower()  # "averages the 32 rows"
        if verb.endswith("ing") or _OPERANDS.intersection((verb, *between)):  # "the softmax runs over 10 values"
            operands = tuple(operand for fact in mention.facts for operand in self.facts.operands(fact))
            return Subject((*operands, *mention.facts), True, False, mention.facts, operands)
        return Subject(mention.facts, True, bool(between), mention.facts, mention.facts)

    def _behind(self, at: int) -> Mention | None:
        """The mention in "33 rows of `x`" and "3072 output elements"."""
        for mention in self.mentions:
            if at < mention.at <= at + 5:
                between = [item.text.lower() for item in self.items[at + 1 : mention.at]]
                if not between and self.items[at].kind is ItemKind.QUANTITY:
                    noun = WORDS.countable.match(self.after(mention.at, 20))
                    return mention if noun and not mention.by_operator else None
                last = max((n for n, word in enumerate(between) if word in ("of", "in")), default=-1)
                if 1 <= last <= 2 and set(between[last:]) <= _OF and not any(w in _BREAK for w in between[:last]):
                    return mention
        return None

    def _same_clause(self, one: int, two: int) -> bool:
        first, last = min(one, two), max(one, two)
        return not any(item.text.lower() in _BREAK for item in self.items[first + 1 : last])
