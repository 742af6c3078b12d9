"""A candidate's Python for MUSA: renames `torch.cuda` and the device; its CUDA sources are ported when compiled.

Edits the text at the places that the syntax tree names, so everything else, line numbers included, stays as it is.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from musadata.syntax import parse
from musadata.verifier.rules.python.name_resolution import Names, collect_names

_DEVICE = re.compile(r"cuda(:\d+)?")
_LITERAL = re.compile(r"[bBfFrRuU]{0,2}(\"\"\"|'''|\"|')cuda\b")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")  # as Python counts them; str.splitlines knows more ends
_IMPORTED = re.compile(r"\btorch(\s*)\.(\s*)cuda\b")


@dataclass(frozen=True)
class _Edit:
    """Replace bytes `start` to `end` of a line (1-based) by `text`."""

    line: int
    start: int
    end: int
    text: str


def port_python(source: str) -> str:
    """The program with MUSA's names; unchanged where it does not parse."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError):
        return source
    lines = [line.encode() for line in _LINE.findall(source)]
    names = collect_names(tree)
    edits = {edit for node in ast.walk(tree) for edit in _edits(node, names, lines)}
    for edit in sorted(edits, key=lambda edit: (edit.line, edit.start), reverse=True):
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.start] + edit.text.encode() + line[edit.end :]
    return b"".join(lines).decode()


def _edits(node: ast.AST, names: Names, lines: list[bytes]) -> Iterator[_Edit]:
    if isinstance(node, ast.Attribute) and node.attr in ("cuda", "is_cuda"):
        if node.attr == "is_cuda" or "torch" in names.resolve(node.value):
            yield from _rename_attribute(node, lines)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
        if "extension" not in names.resolve(node.func.value):  # x.cuda() moves a tensor; an extension's is its own
            yield from _rename_attribute(node.func, lines)
    elif isinstance(node, (ast.JoinedStr, ast.Constant)) and (isinstance(node, ast.JoinedStr) or _is_device(node)):
        yield from _rename_literal(node, lines)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from _rename_imports(node, lines)


def _is_device(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and bool(_DEVICE.fullmatch(str(node.value)))


def _rename_attribute(node: ast.Attribute, lines: list[bytes]) -> Iterator[_Edit]:
    line, end = node.end_lineno or 0, node.end_col_offset or 0
    start = end - len(node.attr)
    if lines[line - 1][start:end].decode() == node.attr:
        yield _Edit(line, start, end, node.attr.replace("cuda", "musa"))


def _rename_literal(node: ast.expr, lines: list[bytes]) -> Iterator[_Edit]:
    """`"cuda:0"`, `f"cuda:{index}"`; parts of an f-string have no places of their own before Python 3.12."""
    found = _LITERAL.match(lines[node.lineno - 1][node.col_offset :].decode("utf-8", "replace"))
    if found and found.end() < len(lines[node.lineno - 1]) - node.col_offset:
        yield _Edit(node.lineno, node.col_offset + found.end() - 4, node.col_offset + found.end(), "musa")


def _rename_imports(node: ast.Import | ast.ImportFrom, lines: list[bytes]) -> Iterator[_Edit]:
    if isinstance(node, ast.ImportFrom) and node.module == "torch":
        for alias in node.names:
            if alias.name == "cuda":
                text = "musa" if alias.asname else "musa as cuda"
                yield _Edit(alias.lineno, alias.col_offset, alias.col_offset + 4, text)
        return
    for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
        line = lines[number - 1]
        for found in _IMPORTED.finditer(line.decode()):
            start, end = (len(line.decode()[:place].encode()) for place in found.span())
            yield _Edit(number, start, end, f"torch{found[1]}.{found[2]}musa")
