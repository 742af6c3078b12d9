"""The checkable claims in a piece of reasoning, found by their form alone.

Checkable is: names of aten operators and dtypes; tuples of numbers (shapes, strides, arguments); equations between
whole numbers; figures with a scale ("2.2 KB") and intensities; sizes of thread blocks and tiles, counts of blocks and
threads; coordinates taken out of a flat index (`i / 64 % 8`) and offsets put together from them; and every other whole
number from 3 up. Not claims are: code in fences, identifiers that hold digits (`float4`), decimal constants of the
mathematics (`0.5`, `1e-5`), powers (`2^24`), numbers of list items and axes, widths ("32-bit"), and warps.
"""

import ast
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from musadata.syntax import parse_expression


class ClaimKind(StrEnum):
    OPERATOR = "operator"
    DTYPE = "dtype"
    TUPLE = "tuple"
    EQUATION = "equation"
    SCALED = "scaled"  # a rounded figure with a unit
    INTENSITY = "intensity"
    TILE = "tile"  # two sizes of a block with two axes
    BLOCK_SIZE = "block size"  # a free choice of the writer, from which counts of blocks and threads follow
    GEOMETRY = "geometry"  # a count of blocks, threads or warps
    RANK = "rank"
    SPLIT = "split"  # a coordinate taken out of a flat index: i / 64 % 8
    OFFSET = "offset"  # an offset put together from coordinates: n * 768 + k * 256
    NUMBER = "number"


@dataclass(frozen=True)
class Claim:
    """One claim.

    Attributes:
        kind: what it is about.
        text: its words, verbatim.
        numbers: the whole numbers that it states.
        about: for a tuple "shape", "stride", "index" or "" if it does not say; for a scaled figure its unit.
        tensor: the tensor that it is about, if it names one.
    """

    kind: ClaimKind
    text: str
    numbers: tuple[int, ...] = ()
    about: str = ""
    tensor: str = ""


DTYPES = "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 bool complex64 complex128".split()  # noqa: SIM905

_TUPLE = r"(?<![\w.])(?:\(\s*-?[0-9]+\s*,(?:\s*-?[0-9]+\s*,?)*\s*\)|\[\s*-?[0-9]+(?:\s*,\s*-?[0-9]+)*\s*\])"
_NAMED = r"`(?P<tensor>[\w.]+)`"
_TOKEN = r"(?:[0-9]++(?!\.[0-9])(?![A-Za-z_])|⌈|⌉|⌊|⌋|\(|\)|//|[×*·+−\-/÷%]|\bceil\b|\bfloor\b|\bmod\b)"
_SIDE = rf"{_TOKEN}(?:\s*{_TOKEN})*"
_EQUATION = rf"(?<![\w.×*·+−/÷%\-])(?=[0-9(⌈⌊cf]){_SIDE}(?:\s*=\s*{_SIDE})+"
_ABSURD = "9" * 18  # what stands for numbers that no figure of a trace can be
_LONGEST_EXPRESSION = 400
_NOT_A_LINE_BREAK = re.compile(r"[^\n]")
_NOTHING = (
    r"```.*?(?:```|\Z)",  # code
    r"(?m)^\s*[0-9]+[.)]\s",  # list items
)
_FREE = (
    r"\b[0-9]+(?:\.[0-9]+)?e[+-]?[0-9]+f?\b|\b[0-9]*\.[0-9]+f?\b",  # decimal constants
    r"\b[0-9]+\s*(?:\^|\*\*)\s*-?[0-9]+",  # powers
    r"\b[0-9]+-(?:bit|byte|way)\b",
    r"\bwarps? of 32\b|\b32 (?:lanes|threads of a warp)\b",
    r"(?i)\b(?:dim|axis|dimension|set|shapes|step|turn|argument|level)\s*=?\s*-?[0-9]\b(?![.,]?[0-9])",
    r"[A-Za-z_][\w.]*[0-9]\w*|\b[0-9]+(?:\.[0-9]+)*\.[A-Za-z_][\w.]*",  # identifiers: float4, 0.weight
    r"-[0-9]+\b(?<=[(\[=, ]-[0-9])",  # a negative axis
)
_GEOMETRY_NOUN = r"(?:(?:live|idle|spare|full|whole|more|last|launched|thread|active)\s+)*(?:blocks?|threads?|warps?)\b"
_BLOCK_SIZE = (
    r"\b(?P<size>[0-9]+)\s+threads?\s+(?:in\s+|to\s+)?(?:a|per|each|every|the|one)\s+block\b",
    r"\bblocks?\s+of\s+(?P<size>[0-9]+)(?:\s+threads)?\b",
    r"\b(?:blockDim(?:\.x)?|block(?:\s+|_)size)\s*(?:=|of|is)?\s*(?P<size>[0-9]+)\b",
)


def find_claims(text: str) -> list[Claim]:
    """All claims of a text, in the order of their kinds."""
    scanner = _Scanner(re.sub(r"[0-9]{19,}", _ABSURD, text))
    for pattern in _NOTHING:
        scanner.drop(pattern)
    claims = [Claim(ClaimKind.OPERATOR, match["name"]) for match in scanner.take(r"\b(?P<name>aten\.\w+(?:\.\w+)?)")]
    claims += _find_dtypes(scanner)
    claims += _find_tuples(scanner)
    for kind, pattern in _FORMS:
        claims += [_claim(kind, match) for match in scanner.take(pattern, _CONDITIONS.get(kind, bool))]
    for pattern in _FREE:
        scanner.drop(pattern)
    claims += [_claim(ClaimKind.GEOMETRY, match) for match in scanner.take(rf"\b[0-9]+\s+{_GEOMETRY_NOUN}")]
    claims += [
        Claim(ClaimKind.NUMBER, match[0].strip(), (int(match["number"].replace(",", "")),))
        for match in scanner.take(r"\b(?P<number>[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)\b(?:\s+[A-Za-z]+)?")
    ]
    return claims


class _Scanner:
    """A text in which recognised claims are blanked out, so that no part is read twice."""

    def __init__(self, text: str):
        self.text = text

    def take(self, pattern: str, accepts: Callable[[re.Match[str]], bool] = bool) -> Iterator[re.Match[str]]:
        matches = [match for match in re.finditer(pattern, self.text, re.DOTALL) if accepts(match)]
        self._blank(matches)
        return iter(matches)

    def drop(self, pattern: str) -> None:
        self._blank(list(re.finditer(pattern, self.text, re.DOTALL)))

    def _blank(self, matches: list[re.Match[str]]) -> None:
        if not matches:
            return
        parts, end = [], 0
        for match in matches:
            parts += [self.text[end : match.start()], _NOT_A_LINE_BREAK.sub(" ", match[0])]
            end = match.end()
        self.text = "".join((*parts, self.text[end:]))


def _find_dtypes(scanner: _Scanner) -> list[Claim]:
    """Dtypes; first those of a named tensor, which follow its name with at most shape and stride between."""
    names = "|".join(DTYPES)
    words = r"(?:\s|,|:|\b(?:is|are|has|have|of|a|an|with|and|the|shape|strides?|dtype|holds|contiguous)\b)*"
    bound = rf"{_NAMED}{words}(?:{_TUPLE}{words})*\b(?P<dtype>{names})\b(?!\w)"
    claims = [
        Claim(ClaimKind.DTYPE, match["dtype"], tensor=match["tensor"]) for match in re.finditer(bound, scanner.text)
    ]
    free = [Claim(ClaimKind.DTYPE, match[0]) for match in scanner.take(rf"(?<![\w.])(?:{names})\b(?!\()")]
    return claims + free


def _find_tuples(scanner: _Scanner) -> list[Claim]:
    claims, before = [], scanner.text
    for match in scanner.take(_TUPLE):
        numbers = _numbers(match[0])
        lead = before[max(0, match.start() - 60) : match.start()]
        if lead.endswith("="):  # an argument of an operator
            claims.append(Claim(ClaimKind.TUPLE, match[0], numbers))
        else:
            claims.append(Claim(ClaimKind.TUPLE, match[0], numbers, _tuple_subject(lead), _tuple_owner(lead)))
    return claims


_SUBJECTS = {
    subject: re.compile(rf"\b{words}[\s:,]*(?:(?:of|is|are|has|becomes|stays|now)[\s:]*)?$")
    for subject, words in {
        "stride": "strides?",
        "shape": "shapes?",
        "index": "(?:index|indices|element|position|coordinates)",
    }.items()
}


def _tuple_subject(lead: str) -> str:
    return next((subject for subject, pattern in _SUBJECTS.items() if pattern.search(lead)), "")


def _tuple_owner(lead: str) -> str:
    if "`" not in lead:
        return ""
    words = r"(?:\s|,|:|=|\b(?:is|has|of|with|and|shape|strides?|becomes|a|the)\b)*"
    match = re.search(rf"{_NAMED}{words}(?:{_TUPLE}{words})?$", lead)
    return match["tensor"] if match else ""


def _has_two_steps(match: re.Match[str]) -> bool:
    return match[0].count(" * ") >= 2


def _stands_alone(match: re.Match[str]) -> bool:
    """Whether an equation is complete: no operator precedes it, and every side is an expression."""
    before = match.string[: match.start()].rstrip()
    if before and before[-1] in "×*·+−-/÷%" and not re.search(r"(?:^|\n)\s*[-*+]$", before):
        return False
    return all(evaluate(side) is not None for side in _balance(match[0]).split("="))


# Forms of claims in the order in which they are looked for.
_FORMS = (
    (ClaimKind.INTENSITY, r"\b(?P<value>[0-9]+(?:\.[0-9]+)?)\s*FLOPs?\s*(?:per|/)\s*(?:byte|B)\b"),
    (
        ClaimKind.SCALED,
        r"\b(?P<value>[0-9]+(?:\.[0-9]+)?)\s*(?P<scale>[kKMGT]i?)(?:B|bytes|FLOPs?|flops?|elements)\b",
    ),
    (ClaimKind.SPLIT, r"\b[a-z]\w* (?:/ [0-9]+ )?% [0-9]+\b(?!\.)"),
    (ClaimKind.OFFSET, r"\b[a-z]\w*(?: \* [0-9]+)?(?: \+ [a-z]\w*(?: \* [0-9]+)?)+\b"),
    (ClaimKind.TILE, r"\b(?:tiles?|blocks?) of [0-9]+ ?[×x] ?[0-9]+\b"),
    (ClaimKind.EQUATION, _EQUATION),
    *((ClaimKind.BLOCK_SIZE, pattern) for pattern in _BLOCK_SIZE),
    (ClaimKind.RANK, r"\b[0-9]+(?:-dimensional|-D\b|\s+dimensions\b)"),
)
_CONDITIONS: dict[ClaimKind, Callable[[re.Match[str]], bool]] = {
    ClaimKind.OFFSET: _has_two_steps,
    ClaimKind.EQUATION: _stands_alone,
}


def _claim(kind: ClaimKind, match: re.Match[str]) -> Claim:
    text = match[0]
    match kind:
        case ClaimKind.INTENSITY:
            return Claim(kind, text, about=match["value"])
        case ClaimKind.SCALED:
            return Claim(kind, text.strip(), about=f"{match['value']} {match['scale']}")
        case ClaimKind.SPLIT:
            return Claim(kind, text, _numbers(text), about="both" if "/" in text else "size")
        case ClaimKind.OFFSET:
            return Claim(kind, text, tuple(int(step) for step in re.findall(r"\* ([0-9]+)", text)))
        case ClaimKind.EQUATION:
            return Claim(kind, _balance(text), _numbers(text))
        case ClaimKind.BLOCK_SIZE:
            return Claim(kind, text, (int(match["size"]),))
        case _:
            return Claim(kind, text, _numbers(text))


@lru_cache(maxsize=1 << 14)  # the same figures stand in many sentences, and each is asked for several times
def evaluate(expression: str) -> Fraction | None:
    """The exact value of an arithmetic expression in the notation of reasoning; None if the text is not one."""
    if len(expression) > _LONGEST_EXPRESSION:
        return None
    for sign, operator in _NOTATION.items():
        expression = expression.replace(sign, operator)
    try:
        return _value(parse_expression(expression.strip()).body)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None


_NOTATION = {
    **dict.fromkeys("×·", "*"), "−": "-", "÷": "/", "⌈": "ceil(", "⌊": "floor(", "⌉": ")", "⌋": ")", "mod": "%",
}  # fmt: skip
_OPERATIONS: dict[type, Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: Fraction(a // b),
    ast.Mod: lambda a, b: a % b,
}


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int(number)):
            return Fraction(number)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATIONS:
            return _OPERATIONS[type(operator)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id="ceil"), args=[inner], keywords=[]):
            return Fraction(math.ceil(_value(inner)))
        case ast.Call(func=ast.Name(id="floor"), args=[inner], keywords=[]):
            return Fraction(math.floor(_value(inner)))
    raise ValueError


def _balance(equation: str) -> str:
    """The equation without unmatched brackets, which belong to the sentence around it."""
    equation = equation.strip()
    for opening, closing in ("()", "⌈⌉", "⌊⌋"):
        while equation.count(opening) > equation.count(closing) and opening in equation:
            equation = equation.replace(opening, "", 1)
        while equation.count(closing) > equation.count(opening):
            head, _, tail = equation.rpartition(closing)
            equation = head + tail
    return equation.strip()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"-?[0-9]+", text))
