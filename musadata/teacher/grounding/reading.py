"""A sentence as a row of items: words, figures, tuples, formulas, and names of tensors, operators and dtypes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from musadata.teacher.grounding.expressions import IRRATIONAL, evaluate
from musadata.teacher.grounding.lexicon import DTYPES, FORMULA_NAMES, OPERATOR_WORDS, STOP_WORDS
from musadata.teacher.grounding.quantities import UNIT, Quantity, half_digit, unit_word, with_unit

_TOKEN = re.compile(
    r"(?P<operator>aten(?:\.|::)\w+(?:\.\w+)?)"
    r"|(?P<number>(?<![\w.])(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,3}(?!\w))?)"
    r"|(?P<word>[^\W\d]\w*(?:\.\w+)*(?:'[a-z]+)?|\d\w*)"
    r"|(?P<symbol>\^|//|<=|>=|->|\.\.\.|\.\.|\S)"
)
_SENTENCE = re.compile(r"(?<!\bi\.e)(?<!\be\.g)(?<!\bcf)(?<!\bvs)[.;!?](?=\s|$)|\n")
_THOUSANDS = re.compile(r"\(\d{1,3}(?:,\d{3})+\)")  # a remark as well as a tuple
_LONGEST_SENTENCE = 500
_LONGEST_RUN = 120  # tokens of one expression
_MATRICES = re.compile(r"(?P<one>\( \d+(?: \* \d+)+ \)) \* (?P<two>\( \d+(?: \* \d+)+ \))")
_BINARY = frozenset(["+", "-", "*", "/", "//", "%", "^", "mod"])
_SIGNS = _BINARY | {"=", "~"}
_OPEN, _CLOSED = {"(": ")", "⌈": "⌉", "⌊": "⌋"}, {")", "⌉", "⌋"}
_SAID_OF = ("is", "has", "=", ":", "and", ",", "in", "in ", ")")  # behind a matrix A, not behind an article
_FUNCTIONS = frozenset(["ceil", "floor", "min", "max", "cdiv", "ceil_div", "ceildiv", "div_up", *IRRATIONAL])


class ItemKind(StrEnum):
    WORD = "w"
    QUANTITY = "Q"
    TUPLE = "S"
    PLACE = "P"
    FORMULA = "F"
    TENSOR = "T"
    OPERATOR = "O"
    DTYPE = "D"


class Item(NamedTuple):
    kind: ItemKind
    text: str
    value: object = None


@dataclass
class Sentence:
    """One sentence.

    Attributes:
        text: its words.
        items: what it is made of.
        skeleton: the items' lower-case words, with `Q3` for a figure that is item 3, one blank between them.
    """

    text: str
    items: list[Item]
    skeleton: str = field(init=False)
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        words = [_shown(number, item) for number, item in enumerate(self.items)]
        self._starts, at = [], 0
        for word in words:
            self._starts.append(at)
            at += len(word) + 1
        self.skeleton = " ".join(words)

    @cached_property
    def figures(self) -> list[tuple[int, Quantity]]:
        return [(at, item.value) for at, item in enumerate(self.items) if isinstance(item.value, Quantity)]

    @cached_property
    def by_kind(self) -> dict[ItemKind, list[tuple[int, Item]]]:
        found: dict[ItemKind, list[tuple[int, Item]]] = {}
        for at, item in enumerate(self.items):
            found.setdefault(item.kind, []).append((at, item))
        return found

    def before(self, item: int, length: int = 80) -> str:
        end = self._starts[item]
        return self.skeleton[max(0, end - length) : end]

    def after(self, item: int, length: int = 80) -> str:
        start = self._starts[item + 1] if item + 1 < len(self.items) else len(self.skeleton)
        return self.skeleton[start : start + length]

    def start(self, item: int) -> int:
        return self._starts[item]

    def end(self, item: int) -> int:
        """Where the blank behind an item ends."""
        return self._starts[item + 1] if item + 1 < len(self.items) else len(self.skeleton)

    def numbered(self, kind: ItemKind) -> Iterator[tuple[int, Item]]:
        return ((number, item) for number, item in enumerate(self.items) if item.kind is kind)


def _shown(number: int, item: Item) -> str:
    """Words of operators ("the mean") stay words, since they are nouns and verbs as well."""
    if item.kind is ItemKind.WORD or (item.kind is ItemKind.OPERATOR and not str(item.value).startswith("aten.")):
        return item.text.lower()
    return f"{item.kind}{number}"


def split_sentences(text: str) -> Iterator[str]:
    start = 0
    ends = [match.end() for match in _SENTENCE.finditer(text)]
    for end in [*ends, len(text)]:
        for at in range(start, end, _LONGEST_SENTENCE):
            part = text[at : min(end, at + _LONGEST_SENTENCE)].strip()
            if part:
                yield part
        start = end


def read_sentence(text: str, tensors: frozenset[str], operators: frozenset[str] = frozenset()) -> Sentence:
    """The items of a sentence in normalised notation; `tensors` and `operators` are names that the traces know."""
    return Sentence(text, list(_Reader(text, tensors, operators).items()))


class _Reader:
    def __init__(self, text: str, tensors: frozenset[str], operators: frozenset[str]):
        self.tokens = [(match.lastgroup or "", match[0], match.start(), match.end()) for match in _TOKEN.finditer(text)]
        self.text, self.tensors, self.operators = text, tensors, operators

    def items(self) -> Iterable[Item]:
        at = 0
        while at < len(self.tokens):
            for read in () if self._is_plain(at) else (self._tuple, self._arithmetic):
                found, after = read(at)
                if after > at:
                    yield from found
                    at = after
                    break
            else:
                kind, word, *_ = self.tokens[at]
                item = self._word(at, kind, word)
                if item:
                    yield item
                at += 1

    def _is_plain(self, at: int) -> bool:
        """Whether a token is a word beside which no sign of arithmetic stands."""
        kind, word, *_ = self.tokens[at]
        if kind != "word" or word in _FUNCTIONS:
            return False
        return at + 1 >= len(self.tokens) or self.tokens[at + 1][1] not in _SIGNS

    def _is(self, at: int, *words: str) -> bool:
        return 0 <= at < len(self.tokens) and self.tokens[at][1] in words

    def _touches(self, at: int) -> bool:
        """Whether a token stands directly behind the one before it."""
        return 0 < at < len(self.tokens) and self.tokens[at][2] == self.tokens[at - 1][3]

    def _word(self, at: int, kind: str, word: str) -> Item | None:
        quoted = self._is(at - 1, "`") and self._is(at + 1, "`")
        if kind == "operator":
            return Item(ItemKind.OPERATOR, word, word.replace("::", "."))
        lower = word.lower()
        if kind == "word" and len(word) > 1 and lower.isalpha() and not self._is_name(word, lower):
            return Item(ItemKind.WORD, lower)
        if lower.removeprefix("torch.") in DTYPES and not self._is(at + 1, "("):
            return Item(ItemKind.DTYPE, word, DTYPES[lower.removeprefix("torch.")])
        indexed = self._is(at + 1, "[") and self._touches(at + 1)
        if word in self.tensors and (quoted or indexed or (word not in STOP_WORDS and lower not in OPERATOR_WORDS)):
            return Item(ItemKind.TENSOR, word, word)
        if len(word) == 1 and word != lower and lower in self.tensors and (word != "A" or self._is(at + 1, *_SAID_OF)):
            return Item(ItemKind.TENSOR, lower, lower)
        method = lower.rpartition(".")[2]  # `weight.t()`, `weight.T`
        is_called = self._is(at + 1, "(") or method == "t"
        if method in self.operators and "." in lower + "." * self._is(at - 1, ".") and is_called:
            return Item(ItemKind.OPERATOR, word, method)
        if lower in OPERATOR_WORDS or (lower in self.operators and (quoted or lower not in STOP_WORDS)):
            return Item(ItemKind.OPERATOR, word, lower)
        if word in "`\"'" or (word == "-" and (self._touches(at) or self._touches(at + 1))):
            return None
        return Item(ItemKind.WORD, lower)

    def _is_name(self, word: str, lower: str) -> bool:
        return lower in DTYPES or lower in OPERATOR_WORDS or word in self.tensors or lower in self.operators

    def _tuple(self, at: int) -> tuple[list[Item], int]:
        """A tuple of whole numbers, in either bracket; one of names is a word."""
        if not self._is(at, "(", "["):
            return [], at
        is_place = (
            self._is(at, "[") and self._touches(at) and (self.tokens[at - 1][0] == "word" or self._is(at - 1, "]"))
        )
        closing = ")" if self._is(at, "(") else "]"
        parts: list[str] = []
        here, commas = at + 1, 0
        while here < len(self.tokens) and not self._is(here, closing):
            kind, word, *_ = self.tokens[here]
            if word == ",":
                commas += 1
            elif word == "-" and self.tokens[here + 1 : here + 2] and self.tokens[here + 1][0] == "number":
                parts.append("-" + self.tokens[here + 1][1])
                here += 1
            elif kind == "number" or (kind == "word" and (len(word) < 4 or word in FORMULA_NAMES)):
                parts.append(word)
            else:
                return [], at
            if len(parts) > commas + 1 or here - at > 40:
                return [], at
            here += 1
        if here >= len(self.tokens) or not parts or (closing == ")" and not commas):
            return [], at
        whole = all(re.fullmatch(r"-?\d+", part) for part in parts)
        text = self.text[self.tokens[at][2] : self.tokens[here][3]]
        if is_place:  # "`x[3, 1]`"
            return ([Item(ItemKind.PLACE, text, tuple(map(int, parts)))], here + 1) if whole else ([], at)
        is_call = self._touches(at) and self.tokens[at - 1][0] == "word"
        if is_call or _THOUSANDS.fullmatch(text):
            return [Item(ItemKind.WORD, "(mixed)")], here + 1
        if not whole:
            named = all(not part.lstrip("-")[0].isdigit() for part in parts)
            return [Item(ItemKind.WORD, "(names)" if named else "(mixed)")], here + 1
        return [Item(ItemKind.TUPLE, text, tuple(map(int, parts)))], here + 1

    def _arithmetic(self, at: int) -> tuple[list[Item], int]:
        end = self._run_end(at)
        if end == at:
            return [], at
        sides, signs = self._sides(at, end)
        if not any(self.tokens[n][0] == "number" for n in range(at, end)) or (
            len(sides) == 1 and end == at + 1 and self.tokens[at][0] != "number"
        ):
            return [], at
        ranged = self._range(at, end)
        if ranged:
            return ranged, end
        return self._sides_as_items(sides, signs, end)

    def _range(self, at: int, end: int) -> list[Item]:
        """`0-263` is a range, and `263 - 0` a difference."""
        if end != at + 3 or not self._is(at + 1, "-") or self._is(end, "="):
            return []
        first, last = self.tokens[at][1], self.tokens[at + 2][1]
        if not (first.isdigit() and last.isdigit() and int(first) < int(last)):
            return []
        return [_figure(first), Item(ItemKind.WORD, "to"), _figure(last)]

    def _run_end(self, at: int) -> int:
        """Where the longest expression ends that begins here; `at` itself if there is none."""
        brackets: list[str] = []
        operand, good, here = True, at, at
        while here < len(self.tokens) and here - at < _LONGEST_RUN:
            kind, word, *_ = self.tokens[here]
            if operand:
                if word in _OPEN:
                    brackets.append(_OPEN[word])
                elif kind == "number" and not self._is_label(here):
                    operand = False
                elif (word in _FUNCTIONS and self._is(here + 1, "(")) or (
                    word == "-"
                    and here + 1 < len(self.tokens)
                    and self._touches(here + 1)
                    and (here == at or brackets or self.tokens[here - 1][1] in _BINARY or self._is(here - 1, "=", "~"))
                ):
                    pass
                elif self._is_variable(here):
                    operand = False
                else:
                    break
            elif brackets and word == brackets[-1]:
                brackets.pop()
            elif (word == "," and brackets and brackets[-1] == ")") or (word in _BINARY and self._joins(here)):
                operand = True
            elif word in ("=", "~") and not brackets:
                operand = True
                if self._is(here + 1, "=", "~"):
                    here += 1
            else:
                break
            here += 1
            if not operand and not brackets:
                good = here
        return good

    def _is_label(self, here: int) -> bool:
        """`2D`, `3rd` and the like are words."""
        return self._touches(here + 1) and bool(re.match(r"(?:st|nd|rd|th|d|D)\b", self.tokens[here + 1][1]))

    def _is_variable(self, here: int) -> bool:
        kind, word, *_ = self.tokens[here]
        if kind != "word" or word.lower() in STOP_WORDS or word[0].isdigit():
            return False
        neighbours = [n for n in (here - 1, here + 1) if 0 <= n < len(self.tokens) and self.tokens[n][1] in _BINARY]
        around = [n for n in neighbours if self._joins(n)]
        return bool(around) and (len(word) <= 2 or word in FORMULA_NAMES or "_" in word or "." in word)

    def _joins(self, here: int) -> bool:
        """Whether a sign is an operator and no hyphen, slash or percent sign."""
        word = self.tokens[here][1]
        if here + 1 >= len(self.tokens) or here == 0:
            return False
        following = self.tokens[here + 1]
        starts = following[0] == "number" or following[1] in _OPEN or following[1] in _FUNCTIONS or following[1] == "-"
        names = following[0] == "word" and (
            len(following[1]) <= 2 or following[1] in FORMULA_NAMES or "_" in following[1] or "." in following[1]
        )
        if following[1].lower() in STOP_WORDS or not (starts or names):
            return False
        if word == "-":
            left, right = self._touches(here), self._touches(here + 1)
            before = self.tokens[here - 1]
            if left and before[0] == "number" and names and len(following[1]) > 2:  # "1-block-per-row"
                return False
            return left == right and (
                not left or before[0] == "number" or len(before[1]) <= 3 or before[1] in FORMULA_NAMES
            )
        if word == "%":
            return not self._touches(here) or self._touches(here + 1)
        return True

    def _sides(self, at: int, end: int) -> tuple[list[tuple[int, int]], list[str]]:
        sides, signs, start = [], [], at
        for here in range(at, end):
            if self._is(here, "=", "~"):
                if here > start:
                    sides.append((start, here))
                    signs.append(self.tokens[here][1])
                elif signs:
                    signs[-1] = "~"
                start = here + 1
        return [*sides, (start, end)], signs

    def _sides_as_items(self, sides: list[tuple[int, int]], signs: list[str], end: int) -> tuple[list[Item], int]:
        found: list[Item] = []
        pending: list[str] = []
        matrices = _MATRICES.fullmatch(" ".join(self.tokens[n][1] for n in range(sides[0][0], end)))
        if matrices:
            pairs = [tuple(int(n) for n in re.findall(r"\d+", matrices[part])) for part in ("one", "two")]
            return [Item(ItemKind.TUPLE, str(pair), pair) for pair in pairs], end
        for number, (start, stop) in enumerate(sides):
            text = " ".join(self.tokens[n][1] for n in range(start, stop))
            if number and signs[number - 1] == "~":
                text = "~ " + text
            has_names = any(
                self.tokens[n][0] == "word" and self.tokens[n][1] not in _FUNCTIONS | {"mod"}
                for n in range(start, stop)
            )
            if not has_names:
                pending.append(text)
                continue
            if pending:
                found += [*_close(pending), Item(ItemKind.WORD, "=")]
                pending = []
            if stop == start + 1:
                name = self.tokens[start][1]
                kind = ItemKind.TENSOR if name in self.tensors else ItemKind.WORD
                found.append(Item(kind, name if kind is ItemKind.TENSOR else name.lower(), name))
            else:
                found.append(Item(ItemKind.FORMULA, text.removeprefix("~ "), text.removeprefix("~ ")))
            found.append(Item(ItemKind.WORD, "="))
        if not pending:
            return found[:-1], end
        items = _close(pending)
        if not items:
            return [], end
        last = items[-1]
        unit, after = self._unit(end)
        if unit and isinstance(last.value, Quantity):
            words = self.text[self.tokens[end][2] : self.tokens[after - 1][3]]
            name = unit_word(unit)
            text = last.text if words.lower() == name else f"{last.text} {words}"
            last = Item(ItemKind.QUANTITY, text, with_unit(last.value, unit))
            items = [*items[:-1], last]
            items += [Item(ItemKind.WORD, name)] if name else []
        return [*found, *items], after

    def _unit(self, at: int) -> tuple[str, int]:
        """A unit or prefix behind a figure, and where the text goes on."""
        if at >= len(self.tokens):
            return "", at
        word = self.tokens[at][1]
        if word == "%":
            is_modulo = self.tokens[at + 1 : at + 2] and self._is(at + 2, ")", "]", "`", *_BINARY)
            return ("", at) if is_modulo else ("%", at + 1)
        if word == "-" and at + 1 < len(self.tokens) and self._touches(at) and self._touches(at + 1):
            word, at = self.tokens[at + 1][1], at + 1
        found = UNIT.fullmatch(word)
        if not found or (found["prefix"] and not found["unit"] and not (self._touches(at) or len(word) == 2)):
            return "", at
        if word in ("b", "B") and not self._touches(at) and word == "b":
            return "", at
        return word, at + 1


def _figure(text: str) -> Item:
    return _close([text])[0]


def _close(sides: Sequence[str]) -> list[Item]:
    """The sides of an equation without names, as one figure: its value is that of the last side."""
    last = sides[-1].removeprefix("~ ")
    value = evaluate(last)
    if value is None:
        values = [evaluate(side.removeprefix("~ ")) for side in sides]
        value = next((found for found in values if found is not None), None)
        if value is None:
            return []
    half = half_digit(last)
    text = " = ".join(sides).replace("= ~", "~")
    return [Item(ItemKind.QUANTITY, text, Quantity(((value, half),), tuple(sides)))]
