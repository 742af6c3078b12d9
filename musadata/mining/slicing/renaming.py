"""Renaming dotted names in code, except in functions that bind the same name locally."""

import ast
import re
from collections.abc import Iterator
from typing import Any

import libcst as cst
import libcst.matchers as m

from musadata.mining.reading import dotted_names


class NoPosition(Exception):
    """A name stands where `ast` gives no reliable position."""


def rename_text(text: str, renames: dict[str, str]) -> str:
    """The code with every dotted name in `renames` replaced.

    Uses the positions of `ast`; libcst, which takes thirty times as long, is the fallback.
    """
    if not renames:
        return text
    try:
        edits = sorted(_Places(text, renames).edits, reverse=True)
    except NoPosition:
        return cst.parse_module(text).visit(_Renamer(renames)).code
    data = text.encode()
    for start, end, new in edits:
        data = data[:start] + new.encode() + data[end:]
    return data.decode()


class _Places(ast.NodeVisitor):
    """The edits: (start, end, new text), in bytes."""

    def __init__(self, text: str, renames: dict[str, str]):
        self.edits: list[tuple[int, int, str]] = []
        self._renames = renames
        self._roots = {name.partition(".")[0] for name in renames}
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
        if any(isinstance(item, ast.Name) and item.id in self._roots for item in ast.walk(node)):
            raise NoPosition  # before Python 3.12 positions inside of such strings are wrong

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name in self._roots:
            raise NoPosition
        self.generic_visit(node)

    def _give_up(self, node: ast.AST) -> None:
        raise NoPosition

    visit_Global = visit_Nonlocal = visit_Import = visit_ImportFrom = visit_Match = _give_up

    def _replace(self, node: ast.Name | ast.Attribute, dotted: str) -> bool:
        new = self._renames.get(dotted)
        if new is None or any(dotted.partition(".")[0] in names for names in self._locals):
            return False
        end = self._starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        self.edits.append((self._starts[node.lineno - 1] + node.col_offset, end, new))
        return True

    def _rename_head(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        new = self._renames.get(node.name)
        if new is None or "." in new:
            return
        start = self._starts[node.lineno - 1] + node.col_offset
        head = re.compile(rb"(?:async\s+)?(?:def|class)\s+").match(self._data, start)
        if head is None or not self._data.startswith(node.name.encode(), head.end()):
            raise NoPosition
        self.edits.append((head.end(), head.end() + len(node.name.encode()), new))


def _bound_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for part in (function.args, *function.body):
        for node in ast.walk(part):
            if isinstance(node, ast.arg):
                yield node.arg
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


class _Renamer(cst.CSTTransformer):
    """Replaces dotted names outside of their local meanings."""

    def __init__(self, renames: dict[str, str]):
        self._renames = renames
        self._locals: list[set[str]] = []

    def visit_Import(self, node: cst.Import) -> bool:
        return False  # modules are named in full

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_FunctionDef_body(self, node: cst.FunctionDef) -> None:
        self._locals.append(_local_names(node))  # defaults and annotations mean the names around the function

    def leave_FunctionDef_body(self, node: cst.FunctionDef) -> None:
        self._locals.pop()

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        new = self._renames.get(original_node.name.value)
        keep = new is None or "." in new or self._locals
        return updated_node.with_changes(name=original_node.name if keep else cst.Name(new or ""))

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        dotted = dotted_name(original_node)
        if dotted in self._renames and not self._is_local(dotted):
            return cst.parse_expression(self._renames[dotted])
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        new = self._renames.get(original_node.value)
        return updated_node if new is None or self._is_local(original_node.value) else cst.parse_expression(new)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        return updated_node.with_changes(name=original_node.name)

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        new = self._renames.get(original_node.name.value)
        keep = new is None or "." in new
        return updated_node.with_changes(name=original_node.name if keep else cst.Name(new or ""))

    def _is_local(self, dotted: str) -> bool:
        root = dotted.split(".")[0]
        return any(root in names for names in self._locals)


def _local_names(function: cst.FunctionDef) -> set[str]:
    """Names that a function binds."""
    binding = m.Param() | m.AssignTarget() | m.For() | m.CompFor()
    found: list[Any] = [item for part in (function.params, function.body) for item in m.findall(part, binding)]
    targets: list[cst.CSTNode] = [item.name if isinstance(item, cst.Param) else item.target for item in found]
    names = set()
    while targets:
        target = targets.pop()
        if isinstance(target, cst.Name):
            names.add(target.value)
        elif isinstance(target, (cst.Tuple, cst.List)):
            targets += [element.value for element in target.elements]
    return names


def dotted_name(node: cst.CSTNode) -> str:
    """ "nn.Module" for the expression of that name, "" for anything else."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    return ".".join([node.value, *reversed(parts)]) if isinstance(node, cst.Name) else ""
