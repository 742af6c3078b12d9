"""Renaming dotted names in code, except in functions that bind the same name locally."""

import ast
import re
from collections.abc import Iterator

import libcst as cst

from musadata.mining.reading import dotted_names

BRACED = re.compile(rb"\{[^{}]*")
WORD = re.compile(rb"(?<![\w.'\"])[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def rename_text(text: str, renames: dict[str, str]) -> str:
    """The code with every dotted name in `renames` replaced."""
    edits = sorted(set(_Places(text, renames).edits), reverse=True) if renames else []
    data = text.encode()
    for start, end, new in edits:
        data = data[:start] + new.encode() + data[end:]
    return data.decode()


class _Places(ast.NodeVisitor):
    """The edits: (start, end, new text), in bytes."""

    def __init__(self, text: str, renames: dict[str, str]):
        self.edits: list[tuple[int, int, str]] = []
        self._renames = renames
        self._locals: list[set[str]] = []
        self._data = text.encode()
        self._starts = [0]
        for line in self._data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self.visit(ast.parse(text))

    def visit_Name(self, node: ast.Name) -> None:
        self._replace(node, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self._replace(node, dotted_names.dotted_name(node)):
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if not self._locals:
            self._rename_head(node)
        for part in (*node.decorator_list, node.args, *([node.returns] if node.returns else [])):
            self.visit(part)  # defaults and annotations mean the names around the function
        self._locals.append({*_bound_names(node)})
        for part in node.body:
            self.visit(part)
        self._locals.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._rename_head(node)
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """By the words between braces: before Python 3.12 positions inside of such strings are wrong."""
        start, end = self._span(node)
        for braced in BRACED.finditer(self._data, start, end):
            self._edit_words(*braced.span())

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self._edit_words(*self._span(node))

    visit_Nonlocal = visit_Global

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Modules are named in full."""

    visit_ImportFrom = visit_Import

    def _edit_words(self, start: int, end: int) -> None:
        for word in WORD.finditer(self._data, start, end):
            parts = word[0].decode().split(".")
            dotted = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
            any(self._edit(word.start(), word.start() + len(name.encode()), name) for name in dotted)

    def _replace(self, node: ast.Name | ast.Attribute, dotted: str) -> bool:
        return self._edit(*self._span(node), dotted)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end = self._starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        return self._starts[node.lineno - 1] + node.col_offset, end

    def _edit(self, start: int, end: int, dotted: str) -> bool:
        new = self._renames.get(dotted)
        if new is None or any(dotted.partition(".")[0] in names for names in self._locals):
            return False
        self.edits.append((start, end, new))
        return True

    def _rename_head(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        new = self._renames.get(node.name)
        if new is None or "." in new:
            return
        start = self._starts[node.lineno - 1] + node.col_offset
        head = re.compile(rb"(?:async\s+)?(?:def|class)\s+").match(self._data, start)
        assert head is not None
        self.edits.append((head.end(), head.end() + len(node.name.encode()), new))


def _bound_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for part in (function.args, *function.body):
        for node in ast.walk(part):
            if isinstance(node, ast.arg):
                yield node.arg
            elif isinstance(node, ast.ExceptHandler) and node.name:
                yield node.name
            elif isinstance(node, ast.Assign):
                yield from (name for target in node.targets for name in _target_names(target))
            elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
                yield from _target_names(node.target)


def _target_names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _target_names(element.value if isinstance(element, ast.Starred) else element)


def dotted_name(node: cst.CSTNode) -> str:
    """ "nn.Module" for the expression of that name, "" for anything else."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    return ".".join([node.value, *reversed(parts)]) if isinstance(node, cst.Name) else ""
