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
OPENING, CLOSING = frozenset("([{"), frozenset(")]}")


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


def closing_index(tokens: Sequence[Token], index: int) -> int:
    """Index of the bracket that closes the one at `index`.

    Raises:
        Unbalanced: there is none.
    """
    depth = 0
    for position in range(index, len(tokens)):
        token = tokens[position]
        if token.kind is Kind.SIGN and (token.text in OPENING or token.text in CLOSING):
            depth += 1 if token.text in OPENING else -1
            if depth == 0:
                return position
    raise Unbalanced(f"bracket {tokens[index].text} on line {tokens[index].line} is never closed")
