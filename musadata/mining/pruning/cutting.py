"""Removing statements and parts of expressions from a text, which otherwise stays unchanged."""

import ast
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from musadata.mining.reading.parsing import first_line

TEXT = re.compile(r"\s*[rbfuRBFU]{0,2}[\"']")
ATOMS = (ast.Name, ast.Constant, ast.Attribute, ast.Call)
KEYWORDS = frozenset([b"return", b"in", b"is", b"not", b"and", b"or", b"if", b"else", b"yield", b"assert"])
COMMENT = re.compile(r"\s*#")
Span = tuple[tuple[int, int], tuple[int, int]]  # from line and column to line and column


class Cutter:
    """Collects edits of a text; `text` applies them.

    Lines are 1-based; columns are bytes of UTF-8, as in `ast`. `texts`: lines that begin inside a string literal.
    """

    def __init__(self, source: str, texts: set[int]):
        self._lines = [line.encode() for line in source.splitlines(keepends=True)]
        self._gone: set[int] = set()
        self._shifts: dict[int, int] = {}
        self._edits: dict[int, list[tuple[int, int, bytes]]] = {}  # by line: from column, to column, what comes there
        # Leading spaces inside a multi-line string are part of its value.
        self._inside = {number for number in texts if not TEXT.match(self.line(number))}

    @property
    def has_cut(self) -> bool:
        return bool(self._gone or self._edits or self._shifts)

    def line(self, number: int) -> str:
        return self._lines[number - 1].decode() if 0 < number <= len(self._lines) else ""

    def drop_lines(self, first: int, last: int) -> None:
        self._gone.update(range(first, last + 1))

    def drop_statement(self, node: ast.stmt) -> None:
        """Remove a statement with the comments directly above it, and the deeper ones below."""
        first, last = first_line(node), node.end_lineno or node.lineno
        if self.shares_line(node):
            self.blank(node)
            return
        self.drop_lines(self.comments_above(first, node.col_offset), self.comments_below(last, node.col_offset))

    def blank(self, node: ast.stmt) -> None:
        """Replace a statement by `pass`."""
        last, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        self.replace(first_line(node), node.col_offset, last, end, "pass")

    def shares_line(self, node: ast.stmt) -> bool:
        """Whether another statement is on the same lines."""
        before = self._lines[first_line(node) - 1][: node.col_offset]
        after = self._lines[(node.end_lineno or node.lineno) - 1][node.end_col_offset or 0 :]
        return bool(before.strip()) or after.lstrip().startswith(b";")

    def comments_above(self, first: int, column: int) -> int:
        """The first line of the comments directly above a line, at this column."""
        while COMMENT.match(self.line(first - 1)) and self._depth(first - 1) == column:
            first -= 1
        return first

    def comments_below(self, last: int, column: int) -> int:
        """The last line of the comments that follow a block and belong to it."""
        number, found = last + 1, last
        while number <= len(self._lines):
            if COMMENT.match(self.line(number)) and self._depth(number) > column:
                found = number
            elif self.line(number).strip():
                break
            number += 1
        return found

    def _depth(self, number: int) -> int:
        line = self.line(number)
        return len(line) - len(line.lstrip())

    def shift(self, first: int, last: int, columns: int) -> None:
        """Dedent lines."""
        for number in range(first, last + 1):
            if number not in self._inside:
                self._shifts[number] = self._shifts.get(number, 0) + columns

    def replace(self, line: int, column: int, last: int, last_column: int, new: str = "") -> None:
        """Replace a range of text, which may span lines."""
        if line == last:
            self._edits.setdefault(line, []).append((column, last_column, new.encode()))
            return
        self._edits.setdefault(line, []).append((column, len(self._lines[line - 1]), new.encode()))
        for number in range(line + 1, last):
            self._edits.setdefault(number, []).append((0, len(self._lines[number - 1]), b""))
        self._edits.setdefault(last, []).append((0, last_column, b""))

    def drop_item(self, items: Sequence[Span], place: int, dropped: Sequence[int]) -> None:
        """Remove one of several items separated by commas."""
        if place + 1 < len(items):
            self.replace(*items[place][0], *items[place + 1][0])
            return
        kept = [number for number in range(place) if number not in dropped]
        start, end = items[place]
        if kept:  # the comma before it goes, and the one behind it stays
            start = items[kept[-1]][1]
        elif self._byte(_one_before(self._after(end))) == b",":
            end = self._after(end)
        self.replace(*start, *end)

    def span(self, first: Any, last: Any) -> Span:
        return (first.lineno, first.col_offset), self.end_of(last)

    def given(self, call: ast.Call) -> list[Span]:
        """The spans of a call's arguments, with stars and parentheses."""
        bounds = self._after(self.end_of(call.func)), (call.end_lineno or 0, (call.end_col_offset or 0) - 1)
        return [self._whole(self.span(item, item), bounds) for item in (*call.args, *call.keywords)]

    def _whole(self, span: Span, bounds: Span) -> Span:
        start, end = self._around(span, bounds)
        while self._byte(before := self._before(start)) == b"*":
            start = before
        return start, end

    def end_of(self, node: Any) -> tuple[int, int]:
        return node.end_lineno, node.end_col_offset

    def join(self, items: Sequence[Span], besides: int, width: int) -> None:
        """Join items in parentheses on one line, if there are no comments and they fit into `width` with `besides`."""
        start, end = self._before(items[0][0]), self._after(items[-1][1])
        if self._byte(_one_before(end)) == b",":
            end = self._after(end)
        if start[0] == end[0] or any("#" in self.line(number) for number in range(start[0], end[0] + 1)):
            return
        if self._byte(start) != b"(" or self._byte(_one_before(end)) != b")":
            return
        sizes = [last[1] - first[1] for first, last in items if first[0] == last[0]]
        if len(sizes) < len(items) or sum(sizes) + 2 * len(items) + besides > width:
            return
        self.replace(start[0], start[1] + 1, *items[0][0])
        for before, after in pairwise(items):
            self.replace(*before[1], *after[0], ", ")
        self.replace(*items[-1][1], end[0], end[1] - 1)

    def keep_only(self, node: ast.expr, part: ast.expr) -> None:
        """Replace an expression by one of its parts, including the parentheses around the part."""
        start, end = self.around(part, node)
        whole = self.span(node, node)
        if isinstance(part, ATOMS) and (start, end) == self.span(part, part) and part.lineno == part.end_lineno:
            whole = self._bare(whole)
        self.replace(*whole[0], *start)
        self.replace(*end, *whole[1])

    def _bare(self, span: Span) -> Span:
        """The span including parentheses around it, unless they belong to a call."""
        before, after = self._before(span[0]), self._after(span[1])
        if self._byte(before) != b"(" or self._byte(_one_before(after)) != b")":
            return span
        word = re.search(rb"[\w\])\"']+$", self._lines[before[0] - 1][: before[1]].rstrip())
        return span if word and word[0] not in KEYWORDS else (before, after)

    def around(self, part: ast.expr, node: ast.expr) -> Span:
        """The span of a part of an expression, including its own parentheses."""
        return self._around(self.span(part, part), self.span(node, node))

    def _around(self, span: Span, bounds: Span) -> Span:
        start, end = span
        while True:
            before, after = self._before(start), self._after(end)
            if before < bounds[0] or after > bounds[1]:
                return start, end
            if self._byte(before) != b"(" or self._byte(_one_before(after)) != b")":
                return start, end
            start, end = before, after

    def _before(self, place: tuple[int, int]) -> tuple[int, int]:
        """The position of the last non-space character before a position."""
        line, column = place
        while line:
            text = self._lines[line - 1][:column].rstrip()
            if text:
                return line, len(text) - 1
            line, column = line - 1, len(self._lines[line - 2]) if line > 1 else 0
        return 0, 0

    def _after(self, place: tuple[int, int]) -> tuple[int, int]:
        """The position after the first non-space character at or after a position."""
        line, column = place
        while line <= len(self._lines):
            text = self._lines[line - 1]
            rest = text[column:].lstrip()
            if rest:
                return line, len(text) - len(rest) + 1
            line, column = line + 1, 0
        return line, 0

    def _byte(self, place: tuple[int, int]) -> bytes:
        return self._lines[place[0] - 1][place[1] : place[1] + 1]

    def text(self) -> str:
        """The edited text, without adjacent empty lines."""
        found: list[str] = []
        joined = b""  # a line without its line break continues in the next one
        for number, line in enumerate(self._lines, 1):
            if number in self._gone:
                continue
            changed = _edited(line, self._edits.get(number, ()))
            shift = self._shifts.get(number, 0)
            if shift and not joined and not changed[:shift].strip():
                changed = changed[shift:] or b"\n"
            changed = joined + changed
            joined = b"" if changed.endswith(b"\n") or not changed else changed
            if not joined and changed and not (line.strip() and not changed.strip()):
                found.append(changed.decode())
        return squeeze("".join(found) + joined.decode())


def _one_before(place: tuple[int, int]) -> tuple[int, int]:
    return place[0], place[1] - 1


def _edited(line: bytes, edits: "tuple[()] | list[tuple[int, int, bytes]]") -> bytes:
    """A line with its edits applied from the right, except those inside a larger edit."""
    outer = [
        (start, end, new)
        for start, end, new in edits
        if not any((first, last) != (start, end) and first <= start and end <= last for first, last, _ in edits)
    ]
    for start, end, new in sorted(set(outer), reverse=True):
        line = line[:start] + new + line[end:]
    return line


def squeeze(text: str) -> str:
    """At most one empty line inside blocks, none at their beginning, at most two elsewhere; `()` on one line."""
    text = re.sub(r"\(\s*\n\s*\)", "()", text)
    text = re.sub(r"\n{3,}(?=[ \t])", "\n\n", text)
    text = re.sub(r"\n{4,}", "\n\n\n", text)
    text = re.sub(
        r"((?:^|\n)[ \t]*(?:(?:if|elif|else|for|while|with|def)\b[^\n]*|\)[^\n]*):\n)\n+(?=[ \t])", r"\1", text
    )
    return text.strip("\n") + "\n"
