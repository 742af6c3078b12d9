"""The part of a reference that constructs its model, as text that a candidate can repeat.

A candidate that constructs its parameters by the same statements in the same order draws the same random numbers, so
that both start with equal values after the same seed. Runs untrusted code: call inside the sandbox only.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from musadata.compiler.ir.lowering_errors import Unsupported

FILE = "<musadata_reference>"
_MODEL, _NEW_MODEL = "Model", "ModelNew"
_CALLED_BY_VERIFIER = {"get_inputs", "get_init_inputs", _MODEL}
_TAKEN = {"extension", "cuda_source", "cpp_source", "load_inline", _NEW_MODEL}
_TEMPLATE_IMPORTS = {"import torch", "import torch.nn as nn", "from torch import nn"}


@contextmanager
def recording_functions() -> Iterator[set[int]]:
    """Collects the first lines of the reference's functions that are called while it is entered."""
    lines: set[int] = set()

    def record(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename == FILE:
            lines.add(frame.f_code.co_firstlineno)

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        yield lines
    finally:
        sys.setprofile(before)


def slice_constructor(source: str, called: set[int]) -> dict[str, str]:
    """What a candidate needs to construct its parameters as the reference does.

    `called` are the first lines of the functions that ran when the reference was loaded and its model constructed.
    Returns `imports` and `definitions`, which belong in front of the class, its `bases`, and its `methods`, which are
    all that construction calls: the forward is not among them.

    Raises:
        Unsupported: construction runs the forward, or a definition has a name that candidates use themselves.
    """
    return _Slice(source, called).write()


@dataclass
class _Slice:
    source: str
    called: set[int]
    kept: dict[str, ast.stmt] = field(default_factory=dict)  # by one of the names that it binds

    def __post_init__(self) -> None:
        self._tree = ast.parse(self.source)
        self._lines = self.source.splitlines()
        self._bound = {name: node for node in self._tree.body for name in _bound_names(node)}

    def write(self) -> dict[str, str]:
        model = self._bound.get(_MODEL)
        if not isinstance(model, ast.ClassDef) or model.decorator_list or model.keywords:
            raise Unsupported("a model that is not a plain class")
        methods = self._members(model)
        if any(isinstance(node, ast.FunctionDef) and node.name == "forward" for node in methods):
            raise Unsupported("a constructor that calls the forward")
        self._keep(name for part in (*model.bases, *methods) for name in self._names(part))
        if clashes := _TAKEN & {name for node in self.kept.values() for name in _bound_names(node)}:
            raise Unsupported(f"a definition of the name {min(clashes)}")
        definitions = [node for node in self._tree.body if node in self.kept.values() and not _is_import(node)]
        return {
            "imports": "\n".join(sorted(self._imports(), key=_import_order)),
            "definitions": "\n\n\n".join(self._statement(node) for node in definitions),
            "bases": ", ".join(ast.unparse(base) for base in model.bases),
            "methods": "\n\n".join(self._text(node) for node in methods),
        }

    def _keep(self, names: Iterable[str]) -> None:
        """Keep what the names stand for, and whatever that needs."""
        for name in names:
            node = self._bound.get(name)
            if node is None or name in self.kept or name in _CALLED_BY_VERIFIER:
                continue
            self.kept[name] = node
            if not _is_import(node):
                self._keep(self._names(node))

    def _names(self, node: ast.AST) -> list[str]:
        """The names that a statement reads from outside, of a class only in the members that are kept."""
        if isinstance(node, ast.ClassDef):
            parts: Sequence[ast.AST] = (*node.bases, *node.keywords, *node.decorator_list, *self._members(node))
            return [name for part in parts for name in self._names(part)]
        found = [name for part in ast.iter_child_nodes(node) for name in self._names(part)]
        if isinstance(
            node, ast.FunctionDef | ast.Lambda
        ):  # its parameters hide names of the module, but for its own defaults
            taken = {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
            return [*self._names(node.args), *(name for name in found if name not in taken)]
        return [node.id] if isinstance(node, ast.Name) else found

    def _members(self, node: ast.ClassDef) -> list[ast.stmt]:
        """A class's variables, and those of its methods that were called."""
        return [
            part
            for part in node.body
            if (isinstance(part, ast.FunctionDef) and self._first_line(part) in self.called)
            or (isinstance(part, ast.Assign) and "__constants__" not in _bound_names(part))
            or (isinstance(part, ast.AnnAssign) and (part.value is not None or node.decorator_list))
        ]

    def _imports(self) -> Iterator[str]:
        for node in self._tree.body:
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
            used = [alias for alias in node.names if future or _bound_name(alias) in self.kept]
            line = ast.unparse(_with_names(node, used)) if used else ""
            if line not in ("", *_TEMPLATE_IMPORTS):
                yield line

    def _statement(self, node: ast.stmt) -> str:
        if not isinstance(node, ast.ClassDef):
            return self._text(node)
        members = [self._text(part) for part in self._members(node)] or ["    pass"]
        bases = ", ".join(ast.unparse(part) for part in (*node.bases, *node.keywords))
        decorators = "".join(f"@{ast.unparse(part)}\n" for part in node.decorator_list)
        return f"{decorators}class {node.name}({bases}):\n".replace("():", ":") + "\n\n".join(members)

    def _first_line(self, node: ast.stmt) -> int:
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        return min([node.lineno, *(part.lineno for part in decorators)])

    def _text(self, node: ast.stmt) -> str:
        """A statement as it was written, without its docstring, and with `ModelNew` where it says `Model`."""
        lines = list(self._lines)
        named = [part for part in ast.walk(node) if isinstance(part, ast.Name) and part.id == _MODEL]
        for part in sorted(named, key=lambda part: -part.col_offset):
            line = lines[part.lineno - 1].encode()
            start, end = part.col_offset, part.col_offset + len(_MODEL)
            lines[part.lineno - 1] = (line[:start] + _NEW_MODEL.encode() + line[end:]).decode()
        skipped: set[int] = set()
        for inner in ast.walk(node):
            if (
                isinstance(inner, ast.FunctionDef | ast.ClassDef)
                and len(inner.body) > 1
                and _is_docstring(inner.body[0])
            ):
                skipped |= set(range(inner.body[0].lineno, inner.body[1].lineno))
        last = node.end_lineno or node.lineno
        return "\n".join(
            lines[number - 1] for number in range(self._first_line(node), last + 1) if number not in skipped
        )


def _bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def _bound_names(node: ast.stmt) -> list[str]:
    """The names that a statement of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [_bound_name(alias) for alias in node.names]
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _with_names(node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> ast.stmt:
    if isinstance(node, ast.Import):
        return ast.Import(names)
    return ast.ImportFrom(node.module, names, node.level)


def _import_order(line: str) -> tuple[bool, bool, str]:
    return "__future__" not in line, line.startswith("from"), line


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
