"""Imports inside functions, which a file uses against circular imports: they bind names of the file as others do."""

import ast
import re
from collections.abc import Iterator

INNER = re.compile(r"^[ \t]+(from|import)\s", re.MULTILINE)


def lift_imports(text: str, tree: ast.Module, available: frozenset[str]) -> tuple[str, list[ast.stmt]]:
    """The text without the imports in its functions that may be those of the file, line for line, and these imports.

    Those of packages that a reference may import stay, and so do those in a `try`, where code may do without, and those
    of a name that means something else in another place.

    Args:
        available: packages that a reference may import.
    """
    if not INNER.search(text):
        return text, []
    nodes = list(ast.walk(tree))  # which takes longer than all the rest
    found = [item for item in _inner(nodes) if not _modules(item[1]) <= available]
    if not found:
        return text, []
    others = _bound(nodes)
    meanings: dict[str, set[str]] = {}
    for item in [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]:
        for name, meaning in _names(item).items():
            meanings.setdefault(name, set()).add(meaning)
    lines = text.splitlines(keepends=True)
    lifted: list[ast.stmt] = []
    for block, node in found:
        names = _names(node)
        alone = [lines[number] for number in range(node.lineno - 1, node.end_lineno or node.lineno)]
        if others & names.keys() or any(len(meanings[name]) > 1 for name in names) or ";" in "".join(alone):
            continue
        indent = alone[0][: node.col_offset]
        rest = ["\n" for _ in alone[1:]]
        is_whole = all(isinstance(item, (ast.Import, ast.ImportFrom)) for item in block)
        lines[node.lineno - 1 : node.end_lineno] = [f"{indent}pass\n" if is_whole else "\n", *rest]
        lifted.append(node)
    return "".join(lines), lifted


def _inner(nodes: list[ast.AST]) -> Iterator[tuple[list[ast.stmt], ast.stmt]]:
    """The imports in functions, each with the block that it stands in."""
    for function in [node for node in nodes if isinstance(node, ast.FunctionDef)]:
        yield from _in_block(function.body)


def _in_block(block: list[ast.stmt]) -> Iterator[tuple[list[ast.stmt], ast.stmt]]:
    for node in block:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if all(alias.name != "*" for alias in node.names):
                yield block, node
        elif isinstance(node, (ast.If, ast.With, ast.For, ast.While)):
            yield from _in_block(node.body)
            yield from _in_block(getattr(node, "orelse", []))


def _modules(node: ast.stmt) -> set[str]:
    """The top-level packages of an import; "" for one that is relative to the file."""
    if isinstance(node, ast.ImportFrom):
        return {"" if node.level else (node.module or "").split(".")[0]}
    return {alias.name.split(".")[0] for alias in getattr(node, "names", ())}


def _names(node: ast.stmt) -> dict[str, str]:
    """The names that an import binds, and what each means."""
    source = f"{'.' * node.level}{node.module}:" if isinstance(node, ast.ImportFrom) else ""
    return {
        alias.asname or alias.name.split(".")[0]: f"{source}{alias.name if alias.asname or source else ''}"
        for alias in getattr(node, "names", ())
    }


def _bound(nodes: list[ast.AST]) -> set[str]:
    """All names that a file binds anywhere, but for those of imports."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
    return found


def names_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in ast.dump(test)


def lazy_imports(tree: ast.Module) -> list[ast.stmt]:
    """The imports that only a type checker executes: a package that imports its parts lazily names them all there."""
    checked = [node for node in tree.body if isinstance(node, ast.If) and names_type_checking(node.test)]
    inside = [item for node in checked for part in node.body for item in ast.walk(part)]
    return [item for item in inside if isinstance(item, (ast.Import, ast.ImportFrom))]
