"""Splitting C++ and CUDA into tokens, which joined again give the source, byte for byte."""

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from musadata.errors import MusadataError


class Kind(Enum):
    """What a token is; comments count as space, because both may be anywhere."""

    SPACE = "space"
    STRING = "string"
    WORD = "word"
    NUMBER = "number"
    SIGN = "sign"


class Token(NamedTuple):
    """A piece of source text. `line` is 1-based."""

    kind: Kind
    text: str
    line: int

    def is_sign(self, text: str) -> bool:
        return self.kind is Kind.SIGN and self.text == text

    def is_word(self, *texts: str) -> bool:
        return self.kind is Kind.WORD and self.text in texts


class Unbalanced(MusadataError):
    """A bracket is never closed; the compiler reports that better."""


_TOKEN = re.compile(
    r"""
    (?P<SPACE>   \s+ | \\\r?\n | //(?:\\\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?P<STRING>  (?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"
               | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*"
               | (?:u8|[uUL])?'(?:\\.|[^'\\\n])*' )
  | (?P<WORD>    [A-Za-z_$][\w$]* )
  | (?P<NUMBER>  \.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])* )
  | (?P<SIGN>    <<<|>>>|::|->|. )
    """,
    re.VERBOSE | re.DOTALL,
)

_KINDS: dict[str | None, Kind] = {kind.name: kind for kind in Kind}
OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = {closing: opening for opening, closing in OPENING.items()}


@lru_cache(maxsize=32)  # several checks and rewrites look at the same source, one after the other
def split(source: str) -> tuple[Token, ...]:
    """The tokens of `source`. Never fails: what is no C++ becomes single signs."""
    tokens = []
    line = 1
    for match in _TOKEN.finditer(source):
        text = match[0]
        tokens.append(Token(_KINDS[match.lastgroup], text, line))
        line += text.count("\n")
    return tuple(tokens)


def join(tokens: Sequence[Token]) -> str:
    """The text of tokens in a row."""
    return "".join(token.text for token in tokens)


def skip_space(tokens: Sequence[Token], index: int) -> int:
    """Index of the first token at or after `index` that is not space; may be len(tokens)."""
    while index < len(tokens) and tokens[index].kind is Kind.SPACE:
        index += 1
    return index


def skip_space_back(tokens: Sequence[Token], index: int) -> int:
    """Index of the last token at or before `index` that is not space; may be -1."""
    while index >= 0 and tokens[index].kind is Kind.SPACE:
        index -= 1
    return index


def closing_index(tokens: Sequence[Token], index: int) -> int:
    """Index of the bracket that closes the one at `index`.

    Raises:
        Unbalanced: there is none.
    """
    return _partner(tokens, range(index, len(tokens)), "is never closed")


def opening_index(tokens: Sequence[Token], index: int) -> int:
    """Index of the bracket that is closed by the one at `index`.

    Raises:
        Unbalanced: there is none.
    """
    return _partner(tokens, range(index, -1, -1), "was never opened")


def _partner(tokens: Sequence[Token], positions: range, problem: str) -> int:
    """The position of the bracket that belongs to the one at the first position."""
    depth = 0
    for position in positions:
        token = tokens[position]
        if token.kind is Kind.SIGN:
            depth += (token.text in OPENING) - (token.text in CLOSING)
            if depth == 0 and (token.text in OPENING or token.text in CLOSING):
                return position
    first = tokens[positions.start]
    raise Unbalanced(f"bracket {first.text} on line {first.line} {problem}")


def split_commas(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split at the commas outside all brackets, angle brackets included."""
    parts: list[list[Token]] = [[]]
    depth = angle = 0
    for token in tokens:
        if token.kind is Kind.SIGN:
            depth += (token.text in OPENING) - (token.text in CLOSING)
            if depth == 0:
                angle += {"<": 1, ">": -1, "<<<": 3, ">>>": -3}.get(token.text, 0)
            if token.text == "," and depth == 0 and angle <= 0:
                parts.append([])
                continue
        parts[-1].append(token)
    return parts
