"""What differs between two programs, line by line, and in which function of them."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from musadata.syntax import parse

_HEAD = re.compile(r"^(?!#|//|using |namespace |return\b)[\w:<>,&*\s]*?\b(\w+)\s*\(")
_GAP = 1  # common lines between two changes that are one, such as a call that a try encloses
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^()]*\)")
_COMMENT = re.compile(r"^\s*(//|#(?!include|define|pragma|if|endif|else))")


@dataclass(frozen=True)
class Line:
    """A line of a program. `number` is 1-based; `text` has no space around it."""

    number: int
    text: str


@dataclass(frozen=True)
class Change:
    """Lines that one program has in the place of others. `before` is the last common line in front of them."""

    old: tuple[Line, ...]
    new: tuple[Line, ...]
    before: Line


def list_changes(old: str, new: str) -> tuple[Change, ...]:
    """The places in which two programs differ, without comments, empty lines and indentation."""
    left, right = _lines(old), _lines(new)
    matcher = SequenceMatcher(a=[one.text for one in left], b=[one.text for one in right], autojunk=False)
    spans: list[tuple[int, int, int, int]] = []
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            continue
        if spans and first - spans[-1][1] <= _GAP and not any(map(_begins, left[spans[-1][1] : first])):
            first, _, start, _ = spans.pop()
        spans.append((first, last, start, end))
    return tuple(
        Change(tuple(left[first:last]), tuple(right[start:end]), left[first - 1] if first else Line(0, ""))
        for first, last, start, end in spans
    )


def distance(one: str, other: str) -> float:
    """The share of the lines of two programs that differ, 0 to 1, comments and empty lines aside."""
    left, right = ([line.text for line in _lines(source)] for source in (one, other))
    return 1 - SequenceMatcher(a=left, b=right, autojunk=False).ratio()


def _begins(line: Line) -> bool:
    """Whether a function or a class begins there: changes on both sides are two, in places of their own."""
    return line.text.startswith(("def ", "class ", "__global__ "))


def _lines(source: str) -> list[Line]:
    """Those that do something. A lone closing bracket tells nothing of its place."""
    numbered = (Line(number, text.strip()) for number, text in enumerate(source.splitlines(), 1))
    return [one for one in numbered if one.text.strip("{}()[]; ") and not _COMMENT.match(one.text)]


def name_place(source: str, number: int) -> str:
    """The function in which a line stands: "the kernel `add_kernel`", "`ModelNew.forward`", "the host function `f`"."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _holds(node, number):
            declares = "{" not in node.value  # functions that are defined elsewhere
            return _native_place(source.splitlines(), node.lineno, node.lineno if declares else number)
    for node in tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef) and _holds(inner, number):
                owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                return f"`{owner}{inner.name}`"
    return "the Python around the kernels"


def _holds(node: ast.expr | ast.stmt, number: int) -> bool:
    return node.lineno <= number <= (node.end_lineno or node.lineno)


def _native_place(lines: Sequence[str], first: int, number: int) -> str:
    """The C++ function around a line: the last one that begins at the margin above it."""
    if first == number:
        return f"`{lines[first - 1].partition('=')[0].strip()}`" if "=" in lines[first - 1] else "the declaration"
    for index in range(number - 1, first - 1, -1):
        text = _BOUNDS.sub("", lines[index])
        found = _HEAD.match(text) if text[:1].strip() else None
        if found:
            head = " ".join(lines[max(first, index - 1) : index + 1])
            kind = "kernel" if "__global__" in head else "device function" if "__device__" in head else "host function"
            return f"the {kind} `{found.group(1)}`"
    return "the CUDA source"
