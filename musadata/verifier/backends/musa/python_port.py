"""A candidate's Python for MUSA: renames `torch.cuda` and the device; its CUDA sources are ported when compiled.

Edits the text at the places that the syntax tree names, so everything else, line numbers included, stays as it is.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from musadata.syntax import parse
from musadata.verifier.rules.python.name_resolution import Names, collect_names

_DEVICE = re.compile(r"cuda(:\d+)?")
_LITERAL = re.compile(r"[bBfFrRuU]{0,2}(\"\"\"|'''|\"|')cuda\b")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")  # as Python counts them; splitlines knows more ends
_IMPORTED = re.compile(rb"\btorch(\s*)\.(\s*)cuda\b")


class Edit(NamedTuple):
    """Replace bytes `start` to `end` of a program by `text`."""

    start: int
    end: int
    text: str


class ProgramText:
    """A program as bytes, since syntax trees count in these."""

    def __init__(self, source: str):
        self.bytes = source.encode()
        self.starts = [0, *(line.end() for line in _LINE.finditer(self.bytes))]  # of the lines, and the end

    def span(self, node: ast.expr | ast.stmt | ast.keyword | ast.alias) -> tuple[int, int]:
        """Where a node begins and ends."""
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[end_line - 1] + end

    def edited(self, edits: Iterable[Edit]) -> str:
        """The program with these places changed."""
        text = self.bytes
        for edit in sorted(edits, reverse=True):
            text = text[: edit.start] + edit.text.encode() + text[edit.end :]
        return text.decode()


def port_python(source: str) -> str:
    """The program with MUSA's names; unchanged where it does not parse."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError):
        return source
    program, names = ProgramText(source), collect_names(tree)
    return program.edited({edit for node in ast.walk(tree) for edit in _edits(node, names, program)})


def _edits(node: ast.AST, names: Names, program: ProgramText) -> Iterator[Edit]:
    if isinstance(node, ast.Attribute) and node.attr in ("cuda", "is_cuda"):
        if node.attr == "is_cuda" or "torch" in names.resolve(node.value):
            yield from _rename_attribute(node, program)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
        if "extension" not in names.resolve(node.func.value):  # x.cuda() moves a tensor; an extension's is its own
            yield from _rename_attribute(node.func, program)
    elif isinstance(node, (ast.JoinedStr, ast.Constant)) and (isinstance(node, ast.JoinedStr) or _is_device(node)):
        yield from _rename_literal(node, program)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from _rename_imports(node, program)


def _is_device(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and bool(_DEVICE.fullmatch(str(node.value)))


def _rename_attribute(node: ast.Attribute, program: ProgramText) -> Iterator[Edit]:
    _, end = program.span(node)
    start = end - len(node.attr)
    if program.bytes[start:end].decode() == node.attr:
        yield Edit(start, end, node.attr.replace("cuda", "musa"))


def _rename_literal(node: ast.expr, program: ProgramText) -> Iterator[Edit]:
    """`"cuda:0"`, `f"cuda:{index}"`; parts of an f-string have no places of their own before Python 3.12."""
    start, _ = program.span(node)
    found = _LITERAL.match(program.bytes[start : start + 16].decode("utf-8", "replace"))
    if found:
        yield Edit(start + found.end() - 4, start + found.end(), "musa")


def _rename_imports(node: ast.Import | ast.ImportFrom, program: ProgramText) -> Iterator[Edit]:
    if isinstance(node, ast.ImportFrom) and node.module == "torch":
        for start, alias in ((program.span(alias)[0], alias) for alias in node.names if alias.name == "cuda"):
            yield Edit(start, start + 4, "musa" if alias.asname else "musa as cuda")
    else:
        for found in _IMPORTED.finditer(program.bytes, *program.span(node)):
            yield Edit(*found.span(), f"torch{found[1].decode()}.{found[2].decode()}musa")
