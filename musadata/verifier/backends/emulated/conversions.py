"""Casts to integers as a device makes them: what is out of range saturates there, and is undefined on the host.

Finds `static_cast<int>(x)`, `(int)x` and `int(x)` and puts x through `emulator::in_range`, which leaves alone whatever
is no floating-point number. Implicit conversions and macros stay as they are.
"""

from collections import defaultdict
from collections.abc import Sequence

from musadata.verifier.compilation.lexer import Kind, Token, closing_index

_NARROW = ("short", "char", "int8_t", "uint8_t", "int16_t", "uint16_t")
_INTEGERS = {"int", "unsigned", "signed", "long", "size_t", "int32_t", "uint32_t", "int64_t", "uint64_t", *_NARROW}
_NUMBERS = _INTEGERS | {"float", "double", "scalar_t", "bool"}
_BEFORE_VALUES = ("return", "case", "else", "co_return")
_AFTER_PARAMETERS = ("const", "noexcept", "override", "final", "requires", "mutable", "volatile")
_PREFIXES = "+-!~*&"


def saturate_casts(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with every cast to a built-in integer saturating.

    Raises:
        Unbalanced: a bracket is never closed.
    """
    places = _outside_directives(tokens)
    code = [tokens[place] for place in places]
    opened: dict[int, list[str]] = defaultdict(list)  # the types of casts that begin before a token
    closed: dict[int, int] = defaultdict(int)
    for index in range(len(code)):
        found = _cast_at(code, index)
        if found is not None:
            kind, first, last = found
            opened[places[first]].append(kind)
            closed[places[last]] += 1
    result: list[Token] = []
    for place, token in enumerate(tokens):
        for kind in opened.get(place, ()):
            result += [Token(Kind.WORD, f"emulator::in_range<{kind}>", token.line), Token(Kind.SIGN, "(", token.line)]
        result += [token, *[Token(Kind.SIGN, ")", token.line)] * closed.get(place, 0)]
    return result


def _outside_directives(tokens: Sequence[Token]) -> list[int]:
    places, directive = [], False
    for place, token in enumerate(tokens):
        if token.kind is Kind.SPACE:
            directive = directive and ("\n" not in token.text or token.text.startswith(("\\", "/*")))
        else:
            directive = directive or token.is_sign("#")
            if not directive:
                places.append(place)
    return places


def _cast_at(code: Sequence[Token], index: int) -> tuple[str, int, int] | None:
    """The integer type of the cast that begins here, and the first and last token of what it converts."""
    token = code[index]
    if token.is_word("static_cast") and _text(code, index + 1) == "<":
        end = _type_end(code, index + 2)
        if end > index + 2 and _text(code, end) == ">" and _text(code, end + 1) == "(":
            return _converted(code, index + 2, end, end + 2, closing_index(code, end + 1) - 1)
    elif token.is_sign("("):
        end = _type_end(code, index + 1)
        if end > index + 1 and _text(code, end) == ")" and _is_cast(code, index, end):
            last = _operand_end(code, end + 1)
            return None if last is None else _converted(code, index + 1, end, end + 1, last)
    elif token.kind is Kind.WORD and token.text in _INTEGERS and _text(code, index + 1) == "(":
        is_cast = _may_precede_value(code, index - 1) and _text(code, index - 1) != "<"
        if is_cast and _text(code, index + 2) not in "*&":
            return _converted(code, index, index + 1, index + 2, closing_index(code, index + 1) - 1)
    return None


def _converted(code: Sequence[Token], start: int, end: int, first: int, last: int) -> tuple[str, int, int] | None:
    """The cast, unless it converts nothing, a number as it is written, or what may be a declaration."""
    if last < first or (first == last and code[first].kind is not Kind.WORD):
        return None
    if _text(code, first) == "{" or (code[first].text in _NUMBERS and _text(code, first + 1) != "("):
        return None
    return " ".join(token.text for token in code[start:end]), first, last


def _type_end(code: Sequence[Token], index: int) -> int:
    """One past the words of a built-in integer type that begins here."""
    while index < len(code) and code[index].kind is Kind.WORD and code[index].text in _INTEGERS:
        index += 1
    return index


def _text(code: Sequence[Token], index: int) -> str:
    return code[index].text if 0 <= index < len(code) else " "


def _may_precede_value(code: Sequence[Token], index: int) -> bool:
    if index < 0 or code[index].kind is Kind.WORD:
        return index >= 0 and code[index].text in _BEFORE_VALUES
    if code[index].text == ")":  # of another cast
        return code[index - 1].text in _NUMBERS and _text(code, index - 2) == "("
    return code[index].text not in ("]", "::", ".", "->")


def _is_cast(code: Sequence[Token], opening: int, closing: int) -> bool:
    """Whether the type in brackets is no parameter of a function."""
    if closing + 1 >= len(code) or not _may_precede_value(code, opening - 1):
        return False
    after = code[closing + 1]
    if after.kind is Kind.WORD:
        return after.text not in _AFTER_PARAMETERS
    return after.kind is Kind.NUMBER or after.text == "(" or after.text in "+-!~*"


def _operand_end(code: Sequence[Token], index: int) -> int | None:
    """The last token of what a cast at this place converts; None if that is not certain."""
    while _text(code, index) in _PREFIXES:
        index += 1
    if _text(code, index) == "(":
        end = closing_index(code, index)
        inside = [token.text for token in code[index + 1 : end]]
        if inside and _NUMBERS.issuperset(inside):
            return _operand_end(code, end + 1)
        index = end
    elif not _is_name_or_number(code, index):
        return None
    while True:
        after = _text(code, index + 1)
        if after in ("(", "["):
            index = closing_index(code, index + 1)
        elif after in (".", "->", "::"):
            index += 2
        elif after == "<" and _is_template(code, index):
            index = _angle_end(code, index + 1)
        else:
            is_increment = after in "+-" and _text(code, index + 2) == after
            is_uncertain = after == "{" or is_increment or (after == "<" and _may_be_template(code, index + 1))
            return None if is_uncertain else index


def _is_name_or_number(code: Sequence[Token], index: int) -> bool:
    if index >= len(code) or code[index].kind not in (Kind.WORD, Kind.NUMBER):
        return False
    return code[index].text not in ("sizeof", "alignof", "new") or _text(code, index + 1) == "("


def _is_template(code: Sequence[Token], index: int) -> bool:
    return _text(code, _angle_end(code, index + 1) + 1) in ("(", "::")


def _angle_end(code: Sequence[Token], index: int) -> int:
    """The sign that closes template arguments of words and numbers; the opening one if these are none."""
    end = index + 1
    while end < len(code) and (code[end].kind in (Kind.WORD, Kind.NUMBER) or code[end].text in (",", "::", "*")):
        end += 1
    return end if _text(code, end) == ">" else index


def _may_be_template(code: Sequence[Token], index: int) -> bool:
    """Whether a later sign in the same statement may close template arguments that begin here."""
    while index < len(code) and code[index].text not in (";", "{", "}"):
        if code[index].text in (">", ">>>") and _text(code, index + 1) in ("(", "::", ">"):
            return True
        index += 1
    return False
