"""Which tensors the words of a sentence are about."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from musadata.records import TensorFact
from musadata.teacher.grounding.facts import Facts
from musadata.teacher.grounding.lexicon import LEXICON, OPERATOR_WORDS
from musadata.teacher.grounding.reading import ItemKind, Sentence

_ROLES = {word: role for role, words in LEXICON["roles"].items() for word in words}
_ALIASES: dict[str, list[str]] = LEXICON["aliases"]
_BREAKS = frozenset([";", "while", "whereas", "but", "because", "since", "so", "therefore"])
_BEHIND = re.compile(
    r"^(?:[a-z-]+ )?(?:of|in|for|from|to|on) (?:the |a |an |each |its |this |that |entire |whole |final )*$"
)


@dataclass(frozen=True)
class Mention:
    """Tensors that some words name.

    Attributes:
        at: the number of the item.
        facts: the tensors, never none.
        by_operator: the words name an operator, whose result or operand may be meant.
    """

    at: int
    facts: tuple[TensorFact, ...]
    by_operator: bool = False


class Subjects:
    """The mentions of a sentence."""

    def __init__(self, sentence: Sentence, facts: Facts):
        self.sentence, self.facts = sentence, facts
        self.mentions = self._joined(list(self._mentions()))

    def _mentions(self) -> Iterator[Mention]:
        for at, item in enumerate(self.sentence.items):
            found = self._tensors(item.kind, item.text, item.value, at)
            if found:
                yield Mention(at, found, by_operator=item.kind is ItemKind.OPERATOR)

    def _joined(self, mentions: list[Mention]) -> list[Mention]:
        """Without those that only complete an operator: "the padded input", "the transpose of `k`"."""
        kept: list[Mention] = []
        for mention in mentions:
            before = kept[-1] if kept else None
            between = [item.text for item in self.sentence.items[before.at + 1 : mention.at]] if before else []
            if before and before.by_operator and between in ([], ["of"], ["of", "the"]):
                if between and not mention.by_operator:
                    names = {fact.name for fact in mention.facts}
                    chosen = tuple(fact for fact in before.facts if names.intersection(fact.operands))
                    kept[-1] = Mention(before.at, chosen or before.facts, by_operator=True)
                elif between or (self.sentence.items[mention.at].kind is ItemKind.TENSOR):
                    kept.append(mention)
                continue
            kept.append(mention)
        return kept

    def _tensors(self, kind: ItemKind, text: str, value: object, at: int) -> tuple[TensorFact, ...]:
        facts = self.facts
        if kind is ItemKind.TENSOR:
            return (facts.by_name[text],) if text in facts.by_name else ()
        if kind is ItemKind.OPERATOR:
            if str(value).startswith("aten."):
                full = str(value)
                return tuple(f for f in facts.tensors if f.operator == full or f.operator.startswith(full + "."))
            if re.search(
                r"\b(?:is|as|only|just|not|merely|already|with) (?:still |only |just )?an? $",
                self.sentence.before(at, 24),
            ):
                return ()  # "`t` is a view"
            return facts.made_by(OPERATOR_WORDS[str(value)])
        if kind is not ItemKind.WORD:
            return ()
        role = _ROLES.get(text)
        before = self.sentence.before(at, 24)
        if role in ("output", "loss") and not re.search(r"\b(?:per|each|every|one) $", before):
            following = self.sentence.after(at, 10)
            return facts.outputs if not re.match(r"(?:channels|features)\b", following) else ()
        if role in ("input", "parameter", "intermediate"):
            roles = ("parameter", "buffer") if role == "parameter" else (role,)
            return facts.of_role(*roles)
        names = [name for name in _ALIASES.get(text, ()) if name in facts.by_name]
        if names:
            return tuple(facts.by_name[name] for name in names[:1])
        if text == "bias":
            return tuple(f for f in facts.of_role("parameter") if f.name.endswith("bias"))
        if text == "weight":
            return tuple(f for f in facts.tensors if f.name.rpartition(".")[2].startswith("weight"))
        return ()

    def of(self, at: int, reach: int = 40) -> Mention | None:
        """The mention that an item is about: one that follows it with "of", else the nearest one before it."""
        items = self.sentence.items
        for mention in self.mentions:
            if at < mention.at <= at + 7:
                between = " ".join(item.text for item in items[at + 1 : mention.at]) + " "
                if _BEHIND.match(re.sub(r"^(?:[\w-]+ ){0,3}?(?=(?:of|in|for|from|to|on) )", "", between)):
                    return mention
        for mention in reversed(self.mentions):
            passed = {item.text for item in items[mention.at + 1 : at]}
            if at - reach <= mention.at < at and not passed & _BREAKS:
                return mention
        return None
