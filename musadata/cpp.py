"""C++ and CUDA as text in which regular expressions see code alone, and which they can edit."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from musadata.errors import MusadataError


class Unbalanced(MusadataError):
    """A bracket is never closed; the compiler reports that better."""


OPENING, CLOSING = frozenset("([{"), frozenset(")]}")
Edit = tuple[int, int, str]  # from, to, and what stands there now
ALIGNMENT = ("alignas", "__align__", "__attribute__", "__builtin_align__")
WORD = r"(?<![\w$])[A-Za-z_$][\w$]*"  # and no suffix of a number, but for that of `1.f`
NUMBER = r"\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*"
_HIDDEN = re.compile(
    rf"""
    (?P<space>   \\\r?\n | //(?:\\\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?<![\w$])(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{{0,16}})\(.*?\)(?P=fence)"
  | "(?:\\.|[^"\\\n])*"
  | (?:(?<![\w$])(?:u8|[uUL]))?'(?:\\.|[^'\\\n])*'
  | (?P<number> (?<![\w$]){NUMBER} )
    """,
    re.VERBOSE | re.DOTALL,
)  # numbers as well, for the ' in them
_BRACKET = re.compile(r"[()\[\]{}]")
_DIRECTIVE = re.compile(r"#[^\n]*")
_FIRST_FRAGMENT, _MOST_FRAGMENTS = 0xF0000, 0x20000
_FRAGMENT = re.compile("[\U000f0000-\U0010ffff]")
_LINE_END = re.compile(f"\n|{_FRAGMENT.pattern}")
_ANGLES = {"<": 1, ">": -1, "<<<": 3, ">>>": -3}
_SIGN = re.compile(r"<<<|>>>|->|[()\[\]{}<>,]")
_NAMESPACE = re.compile(r'(?:\bnamespace\b[\w\s:$]*|\bextern\s*"_*")\Z')
_WINDOW = 200  # characters before a place in which names are


def _hide(found: re.Match[str]) -> str:
    if found["number"]:
        return found[0]
    return " " * len(found[0]) if found["space"] else '"' + "_" * (len(found[0]) - 2) + '"'


class Code:
    """A source, or a part of one.

    Attributes:
        text: the source. What an edit has put there is one character, so that no later edit looks into it.
        mask: the same with spaces in place of comments, and underscores within strings. Its lines are logical ones.
    """

    def __init__(self, text: str, mask: str | None = None, fragments: Sequence[str] = ()):
        if mask is None:  # such characters in a source are fragments, too, so that they do not stand for others
            known = {
                found: chr(_FIRST_FRAGMENT + at) for at, found in enumerate(dict.fromkeys(_FRAGMENT.findall(text)))
            }
            text, fragments = _FRAGMENT.sub(lambda found: known[found[0]], text), list(known)
        self.text = text
        self.mask = _HIDDEN.sub(_hide, text) if mask is None else mask
        self._fragments = fragments

    def __getitem__(self, part: slice) -> "Code":
        return Code(self.text[part], self.mask[part], self._fragments)

    def __str__(self) -> str:
        """The text with what edits have put there."""
        return _FRAGMENT.sub(self._fragment, self.text)

    def _fragment(self, found: re.Match[str]) -> str:
        return self._fragments[ord(found[0]) - _FIRST_FRAGMENT]

    def edited(self, edits: Iterable[Edit]) -> "Code":
        """With some places changed, none of which is in another one.

        Raises:
            Unbalanced: there are more different texts than characters for them.
        """
        marks = {known: chr(_FIRST_FRAGMENT + at) for at, known in enumerate(self._fragments)}
        texts, masks, done = [""], [""], 0
        for start, end, new in sorted(edits):
            if len(marks) == _MOST_FRAGMENTS:
                raise Unbalanced("too many places are changed")
            mark = marks.setdefault(new, chr(_FIRST_FRAGMENT + len(marks))) if new else ""
            texts += [self.text[done:start], mark]
            masks += [self.mask[done:start], mark]
            done = end
        return Code("".join([*texts, self.text[done:]]), "".join([*masks, self.mask[done:]]), list(marks))

    @cached_property
    def _line_ends(self) -> list[int]:
        found = _LINE_END.finditer(self.text)
        counts = ((end.start(), 1 if end[0] == "\n" else self._fragment(end).count("\n")) for end in found)
        return [place for place, count in counts for _ in range(count)]

    def line(self, place: int) -> int:
        """The number of the line of a place."""
        return bisect_left(self._line_ends, place) + 1

    def lines(self, start: int, end: int) -> str:
        """As many newlines as stand there."""
        return "\n" * (self.line(end) - self.line(start))

    def find(self, form: str) -> Iterator[re.Match[str]]:
        """Where the code has a form."""
        return re.finditer(form, self.mask)

    def end_of_code(self, place: int) -> int:
        """Where the code before a place ends, space aside."""
        place = max(0, place)
        while place and self.mask[place - 1].isspace():
            place -= 1
        return place

    def before(self, place: int, form: re.Pattern[str]) -> re.Match[str] | None:
        """The code that has a form and ends, space aside, at a place."""
        end = self.end_of_code(place)
        return form.search(self.mask, max(0, end - _WINDOW), end)

    def in_directive(self, place: int) -> bool:
        """Whether it is within a `#define` or its like."""
        return "#" in self.mask[self.mask.rfind("\n", 0, place) + 1 : place]

    def without_directives(self) -> "Code":
        """With spaces in place of directives."""
        return Code(self.text, _DIRECTIVE.sub(lambda found: " " * len(found[0]), self.mask), self._fragments)

    def closing(self, place: int) -> int:
        """Where the bracket is closed that is opened here.

        Raises:
            Unbalanced: nowhere.
        """
        depth = 0
        for found in _BRACKET.finditer(self.mask, place):
            depth += 1 if found[0] in OPENING else -1
            if depth == 0:
                return found.start()
        raise Unbalanced(f"bracket {self.mask[place : place + 1]} is never closed")

    def opening(self, place: int) -> int:
        """Where the bracket is opened that is closed here.

        Raises:
            Unbalanced: nowhere.
        """
        depth = 0
        for at in range(place, -1, -1):
            depth += (self.mask[at] in CLOSING) - (self.mask[at] in OPENING)
            if depth == 0:
                return at
        raise Unbalanced(f"bracket {self.mask[place : place + 1]} was never opened")

    def enclosing(self, place: int) -> int:
        """Where the innermost parenthesis is opened that is open here; -1 for none."""
        depth = 1
        while depth and (place := max(self.mask.rfind("(", 0, place), self.mask.rfind(")", 0, place))) >= 0:
            depth += 1 if self.mask[place] == ")" else -1
        return place

    def scoped(self, form: str) -> Iterator[tuple[re.Match[str], bool]]:
        """Where the code has a form, and whether all braces that are open there are namespaces'."""
        scopes: list[bool] = []
        for found in self.find(rf"[{{}}]|{form}"):
            if found[0] == "{":
                scopes.append(self.before(found.start(), _NAMESPACE) is not None)
            elif found[0] == "}":
                del scopes[-1:]
            else:
                yield found, all(scopes)

    def without_alignment(self) -> "Code":
        """Without `alignas(...)` and its relatives."""
        found = self.find(rf"\b(?:{'|'.join(ALIGNMENT)})\s*\(")
        return self.edited((one.start(), self.closing(one.end() - 1) + 1, "") for one in found)

    def outside(self, form: str, start: int = 0) -> int:
        """Where a form, such as `;`, first stands outside of brackets; the end if nowhere.

        Raises:
            Unbalanced: a bracket before it is never closed.
        """
        signs = re.compile(rf"(?P<sign>{form})|[(\[{{]")
        while found := signs.search(self.mask, start):
            if found["sign"]:
                return found.start()
            start = self.closing(found.start()) + 1
        return len(self.mask)

    def outside_angles(self, sign: str) -> Iterator[int]:
        """Where a sign stands outside of all brackets, angle brackets included."""
        depth = angle = 0
        for found in _SIGN.finditer(self.mask):
            if found[0] == sign and depth == 0 and angle <= 0:
                yield found.start()
            depth += (found[0] in OPENING) - (found[0] in CLOSING)
            angle += _ANGLES.get(found[0], 0) if depth == 0 else 0

    def split_commas(self) -> "list[Code]":
        """At the commas outside of all brackets, angle brackets included."""
        commas = [*self.outside_angles(",")]
        return [self[start:end] for start, end in zip([0, *(at + 1 for at in commas)], [*commas, None], strict=True)]
