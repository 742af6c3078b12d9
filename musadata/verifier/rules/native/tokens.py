"""C++ and CUDA as tokens without space and comments, on the lines on which they stand."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from musadata.cpp import CLOSING, NUMBER, OPENING, WORD, Code, Unbalanced

_TOKEN = re.compile(rf'(?P<string>"_*")|(?P<number>{NUMBER})|(?P<word>{WORD})|(?P<sign><<<|>>>|::|->|\S)')


class Token(NamedTuple):
    """A piece of source text. `kind`: string, number, word or sign; `line` is 1-based."""

    kind: str
    text: str
    line: int


def read_tokens(source: str) -> list[Token]:
    """The tokens of a source; lines that end in a backslash are joined first. Never fails: what is no C++ becomes
    single signs."""
    pieces = source.split("\\\n")
    code = Code("".join(pieces))
    ends = [*(end.start() for end in re.finditer("\n", code.text)), *list(accumulate(map(len, pieces)))[:-1]]
    ends.sort()
    return [
        Token(str(found.lastgroup), code.text[found.start() : found.end()], bisect_right(ends, found.start()) + 1)
        for found in _TOKEN.finditer(code.mask)
    ]


def closing_index(tokens: Sequence[Token], index: int) -> int:
    """Index of the bracket that closes the one at `index`.

    Raises:
        Unbalanced: there is none.
    """
    depth = 0
    for position in range(index, len(tokens)):
        text = tokens[position].text
        if text in OPENING or text in CLOSING:
            depth += 1 if text in OPENING else -1
            if depth == 0:
                return position
    raise Unbalanced(f"bracket {tokens[index].text} on line {tokens[index].line} is never closed")
