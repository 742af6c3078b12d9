"""Casts to integers as a device makes them: what is out of range saturates there, and is undefined on the host.

Finds `static_cast<int>(x)`, `(int)x` and `int(x)` and puts x through `emulator::in_range`, which leaves alone whatever
is no floating-point number. Implicit conversions and macros stay as they are.
"""

import re
from collections.abc import Iterator

from musadata.cpp import NUMBER, Code, Edit

_INTEGER = (
    r"\b(?:int|unsigned|signed|long|size_t|int32_t|uint32_t|int64_t|uint64_t"
    r"|short|char|int8_t|uint8_t|int16_t|uint16_t)\b"
)
_NUMBER_TYPE = rf"(?:{_INTEGER}|\b(?:float|double|scalar_t|bool)\b)"
_TYPE = rf"{_INTEGER}(?:\s+{_INTEGER})*"
_WORD = r"[A-Za-z_$][\w$]*"
_CAST = (
    rf"\bstatic_cast\s*<\s*(?P<named>{_TYPE})\s*>\s*\(|\(\s*(?P<bare>{_TYPE})\s*\)"
    rf"|(?P<called>{_INTEGER})\s*\((?!\s*[*&])"
)
# What may come before a value; of a bracket only that of another cast.
_BEFORE = re.compile(
    rf"(?:(?P<word>\b{_WORD})|(?P<cast>\(\s*{_NUMBER_TYPE}\s*\))|(?P<no>\)|\]|::|\.|->)|(?P<other>\S))\Z"
)
_BEFORE_VALUES = ("return", "case", "else", "co_return")
_AFTER_CAST = re.compile(
    rf"\s*(?:(?!(?:const|noexcept|override|final|requires|mutable|volatile)\b){_WORD}|{NUMBER}|[(+!~*]|-(?!>))"
)
_SIMPLE = re.compile(rf'{NUMBER}|"_*"|<<<|>>>|::|->|[^\w\s$]')
_TYPE_ALONE = re.compile(rf"{_NUMBER_TYPE}(?!\s*\()")
_TYPES_ALONE = re.compile(rf"\s*(?:{_NUMBER_TYPE}\s*)+")
_OPERAND = re.compile(rf"[\s+\-!~*&]*(?:(?P<bracket>\()|(?!(?:sizeof|alignof|new)\b(?!\s*\()){_WORD}|{NUMBER})")
_AFTER = re.compile(
    rf"\s*(?:(?P<bracket>[(\[])|(?:\.|->|::)\s*(?:{_WORD}|{NUMBER}|\S)"
    rf"|<(?>(?:\s*(?:{_WORD}|{NUMBER}|,|::|\*))*)\s*>(?=\s*(?:\(|::)))"
)
# An operand that is not certain to end here.
_UNCERTAIN = re.compile(r"\s*(?:\{|([+-])\s*\1|<(?!<<)[^;{}]*?(?<!-)>\s*(?:\(|::|>))")


def saturate_casts(code: Code) -> Code:
    """The code with every cast to a built-in integer saturating.

    Raises:
        Unbalanced: a bracket is never closed.
    """
    plain = code.without_directives()
    return code.edited(edit for found in plain.find(_CAST) for edit in _saturate(plain, found))


def _saturate(code: Code, cast: re.Match[str]) -> Iterator[Edit]:
    before = code.before(cast.start(), _BEFORE)
    is_value = before is not None and not before["no"] and (before["word"] or "return") in _BEFORE_VALUES
    start, end = cast.end(), None
    if cast["named"] or (cast["called"] and is_value and before and before["other"] != "<"):
        end = code.closing(start - 1)
    elif cast["bare"] and is_value and _AFTER_CAST.match(code.mask, start):
        end = _operand_end(code, start)
    inside = "" if end is None else code.mask[start:end].strip()
    # Not if it converts nothing, a number as it is written, or what may be a declaration.
    if inside and inside[0] != "{" and not _SIMPLE.fullmatch(inside) and not _TYPE_ALONE.match(inside):
        start = code.mask.index(inside, start)
        kind = " ".join((cast["named"] or cast["bare"] or cast["called"]).split())
        yield start, start, f"emulator::in_range<{kind}>("
        yield start + len(inside), start + len(inside), ")"


def _operand_end(code: Code, place: int) -> int | None:
    """The end of what a cast at this place converts; None if that is not certain."""
    operand = _OPERAND.match(code.mask, place)
    if operand is None:
        return None
    end = operand.end()
    if operand["bracket"]:
        closing = code.closing(end - 1)
        if _TYPES_ALONE.fullmatch(code.mask, end, closing):  # another cast
            return _operand_end(code, closing + 1)
        end = closing + 1
    while after := _AFTER.match(code.mask, end):
        end = code.closing(after.end() - 1) + 1 if after["bracket"] else after.end()
    return None if _UNCERTAIN.match(code.mask, end) else end
