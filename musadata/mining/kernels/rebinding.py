"""A view of a tree in which Python files build the extensions that they import in the repository.

The slicer cuts self-contained code out of such a tree, with `NAME = None` where the extension has to be built.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from musadata.mining.kernels.extension_names import Alias
from musadata.mining.kernels.repository import Repository
from musadata.mining.reading.known_conditions import known_answer
from musadata.mining.reading.parsing import first_line
from musadata.sources.protocol import Tree
from musadata.sources.trees import decode_source

BUILT = 'load_inline(name="{name}", cpp_sources="")'
NEVER = "torch.jit.is_scripting()"  # the slicer knows that this is false
NEWLINE = "\n"
GRADIENTS = frozenset({"backward", "jvp", "vmap"})  # of an `autograd.Function`: a candidate only runs forward


class ExtendedTree:
    """`tree` with `additions` (path -> text) appended to some files."""

    def __init__(self, tree: Tree, additions: Mapping[str, str]):
        self._tree, self._additions = tree, additions

    def paths(self) -> list[str]:
        return self._tree.paths()

    def read(self, path: str) -> bytes:
        return self._tree.read(path) + self._additions.get(path, "").encode()


class RebuiltTree(ExtendedTree):
    """An extended tree in which imports of extensions are replaced.

    Args:
        backward: keep what autograd functions do for gradients.
    """

    def __init__(self, tree: Tree, repository: Repository, additions: Mapping[str, str], *, backward: bool = False):
        super().__init__(tree, additions)
        self._repository, self._backward = repository, backward

    def read(self, path: str) -> bytes:
        data = self._tree.read(path)
        if not path.endswith(".py"):
            return data
        module = self._repository.module(path)
        text = decode_source(data)
        if module is not None:
            text = rebind(text, module, self._repository.aliases(path), backward=self._backward)
        return (text + self._additions.get(path, "")).encode()


def rebind(text: str, module: ast.Module, aliases: Mapping[str, Alias], *, backward: bool = False) -> str:
    """A file's text in which every alias of an extension is a top-level name bound to an extension that is built."""
    imported = {name: alias for name, alias in aliases.items() if not name.endswith("()")}
    edits = [*(() if backward else _forward_only(module)), *_imports(module, imported)]
    bound = [name for name in imported if imported[name].lazy or any(name in names for _, _, _, names in edits)]
    lines = _answer_conditions(text, module).splitlines(keepends=True)
    kept = sorted(edits, key=lambda edit: (edit[0], -edit[1]))
    outermost = [edit for place, edit in enumerate(kept) if not any(edit[1] <= other[1] for other in kept[:place])]
    for first, last, written, _ in reversed(outermost):
        lines[first - 1 : last] = [written] if written else []
    head = _head_length(module)
    text = "".join(
        [*lines[:head], *(f"{line}\n" for name in bound for line in _built(name, imported[name])), *lines[head:]]
    )
    for name in bound:
        if "." in name:
            text = re.sub(rf"\b{re.escape(name)}\b(?=\s*\.)", plain_name(name), text)
    return text


def _answer_conditions(text: str, module: ast.Module) -> str:
    """The text with an answer for each condition that depends on the device alone: a candidate runs on one.

    Every statement keeps its line.
    """
    lines = text.encode().splitlines(keepends=True)
    tests = [
        (node.test, known_answer(node.test, {}, on_device=True))
        for node in ast.walk(module)
        if isinstance(node, ast.If)
    ]
    told = [(test, answer) for test, answer in tests if answer is not None and answer is not known_answer(test, {})]
    for test, answer in sorted(told, key=lambda item: (item[0].lineno, item[0].col_offset), reverse=True):
        first, last = test.lineno - 1, (test.end_lineno or test.lineno) - 1
        before, after = lines[first][: test.col_offset], lines[last][test.end_col_offset :]
        written = f"({'not ' if answer else ''}{NEVER}{NEWLINE * (last - first)})".encode()
        lines[first : last + 1] = (before + written + after).splitlines(keepends=True)
    return b"".join(lines).decode()


def plain_name(alias: str) -> str:
    """An alias as one name: "pkg__C" for "pkg._C"."""
    return alias.replace(".", "__")


def _built(name: str, alias: Alias) -> list[str]:
    target, _, binding = alias.target.partition(":")
    plain = plain_name(name)
    if not binding:
        return [f"{plain} = {BUILT.format(name=target)}"]
    return [f"{plain}_extension = {BUILT.format(name=target)}", f"{plain} = {plain}_extension.{binding}"]


def _head_length(module: ast.Module) -> int:
    """The number of lines of the docstring and `from __future__` imports."""
    last = 0
    for node in module.body:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        last = node.end_lineno or last
    return last


Edit = tuple[int, int, str, frozenset[str]]  # first and last line, the new text, the aliases that the old text bound


def _forward_only(module: ast.Module) -> Iterator[Edit]:
    for node in module.body:
        if isinstance(node, ast.ClassDef) and any("Function" in ast.unparse(base) for base in node.bases):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name in GRADIENTS:
                    yield first_line(item), item.end_lineno or item.lineno, "", frozenset()


def _imports(module: ast.Module, aliases: Mapping[str, Alias]) -> Iterator[Edit]:
    for node in module.body:
        found = list(_binders([node], aliases))
        names = frozenset(name for _, some in found for name in some)
        if found and isinstance(node, ast.Try):  # the handlers of a failed import are not needed
            yield node.lineno, node.end_lineno or node.lineno, "", names
            continue
        for statement, some in found:
            others = _without(statement, some)
            indent = " " * statement.col_offset
            written = f"{indent}{others or 'pass'}\n" if others or indent else ""
            yield statement.lineno, statement.end_lineno or statement.lineno, written, some


def _binders(nodes: Iterable[ast.stmt], aliases: Mapping[str, Alias]) -> Iterator[tuple[ast.stmt, frozenset[str]]]:
    """Statements that bind aliases, at any depth."""
    for top in nodes:
        for node in ast.walk(top):
            names: set[str] = set()
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                unset = isinstance(node.value, ast.Constant) and node.value.value is None  # until it is imported
                names = {node.targets[0].id} if isinstance(node.value, ast.Call) or unset else set()
            if bound := frozenset(names & aliases.keys()):
                assert isinstance(node, ast.stmt)
                yield node, bound


def _without(statement: ast.stmt, names: frozenset[str]) -> str:
    """An import statement without some of its names, "" if none is left."""
    if not isinstance(statement, (ast.Import, ast.ImportFrom)):
        return ""
    kept = [alias for alias in statement.names if (alias.asname or alias.name) not in names]
    if not kept:
        return ""
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import(kept))
    return ast.unparse(ast.ImportFrom(statement.module, kept, statement.level))
