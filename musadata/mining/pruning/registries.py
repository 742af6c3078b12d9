"""Registries in a reference: tables of the few classes that are looked up take their place. Runs inside the sandbox.

`ACTIVATIONS = Registry()` with thirty lines of `Registry`, and a statement for each class that is registered, tell a
reader of a reference no more than `ACTIVATIONS = {"ReLU": nn.ReLU}`.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from musadata.mining.pruning.mentions import WORD
from musadata.mining.reading.parsing import first_line

WIDTH = 110  # of a line


class Watched(dict[str, Any]):
    """The table inside a registry; keeps which of its keys are looked up."""

    def __init__(self, held: Mapping[str, Any]):
        super().__init__(held)
        self.looked_up: dict[str, None] = {}

    def _note(self, key: Any) -> None:
        if super().__contains__(key):
            self.looked_up[key] = None

    def get(self, key: Any, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self._note(key)
        return super().__contains__(key)


@dataclass
class Registries:
    """The registries of one reference, by name; `watch` is called when the reference has been executed.

    Attributes:
        tables: what they hold, and which of it is looked up.
        aliases: attributes and properties of registries that are their tables.
        space: what the reference binds.
    """

    tree: ast.Module
    tables: dict[str, Watched] = field(default_factory=dict)
    aliases: set[str] = field(default_factory=set)
    space: Mapping[str, Any] = field(default_factory=dict)

    @property
    def possible(self) -> bool:
        return any(_candidates(self.tree))

    def watch(self, space: dict[str, Any]) -> None:
        """Note from now on what is looked up."""
        self.space = space
        for name in _candidates(self.tree):
            held = space.get(name)
            inner = {key: value for key, value in vars(held).items() if _is_table(value)} if held is not None else {}
            if len(inner) == 1:
                [(attribute, table)] = inner.items()
                self.tables[name] = watched = Watched(table)
                setattr(held, attribute, watched)
                properties = [key for key, value in vars(type(held)).items() if isinstance(value, property)]
                self.aliases |= {attribute, *(key for key in properties if getattr(held, key) is watched)}

    def replaced(self, source: str, names: Collection[str]) -> str:
        """The source with tables in place of the registries of these names; unchanged if one holds what has no name."""
        written = {name: self._table(name) for name in names}
        if not written or None in written.values():
            return source
        lines = source.splitlines(keepends=True)
        for first, last in _statements(self.tree, written):
            lines[first - 1 : last] = [""] * (last - first + 1)
        model = next(node for node in self.tree.body if getattr(node, "name", "") == "Model")
        lines[first_line(model) - 1] = (
            "".join(f"{text}\n" for text in written.values()) + "\n\n" + lines[first_line(model) - 1]
        )
        registries = {node.name for node in self.tree.body if isinstance(node, ast.ClassDef) and _registers(node)}
        for node in [node for node in self.tree.body if getattr(node, "name", "") not in registries]:
            for number in range(node.lineno - 1, node.end_lineno or 0) if self.aliases else ():
                lines[number] = re.sub(rf"\.({'|'.join(map(re.escape, sorted(self.aliases)))})\b", "", lines[number])
        return "".join(lines)

    def _table(self, name: str) -> str | None:
        """The statement that makes the table."""
        items = {key: self._named(self.tables[name][key]) for key in self.tables[name].looked_up}
        if None in items.values():
            return None
        texts = [f"{key!r}: {text}" for key, text in items.items()]
        line = f"{name} = {{{', '.join(texts)}}}"
        return line if len(line) <= WIDTH else f"{name} = {{\n" + "".join(f"    {text},\n" for text in texts) + "}"

    def _named(self, value: Any) -> str | None:
        """An expression for what is looked up."""
        name = getattr(value, "__name__", "")
        if name != "Model" and name and self.space.get(name) is value:
            return name
        of_torch = name and getattr(nn, name, None) is value and self.space.get("nn") is nn
        return f"nn.{name}" if of_torch else None


def _candidates(tree: ast.Module) -> Iterator[str]:
    """The names of instances of the classes that register something."""
    kinds = {node.name for node in tree.body if isinstance(node, ast.ClassDef) and _registers(node)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
            made, target = node.value.func, node.targets[0]
            if isinstance(made, ast.Name) and made.id in kinds and isinstance(target, ast.Name):
                yield target.id


def _registers(node: ast.ClassDef) -> bool:
    return any(isinstance(item, ast.FunctionDef) and "regist" in item.name for item in node.body)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(callable, value.values()))


def _statements(tree: ast.Module, names: Collection[str]) -> Iterator[tuple[int, int]]:
    """The first and the last line of what makes these registries, and of what registers something there."""
    for node in tree.body:
        spans: list[ast.stmt | ast.expr] = []
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            spans += [item for item in node.decorator_list if WORD.findall(ast.unparse(item))[0] in names]
        elif isinstance(node, (ast.Expr, ast.For)):
            spans += [] if set(WORD.findall(ast.unparse(node))).isdisjoint(names) else [node]
        elif isinstance(node, ast.Assign):
            spans += [node] if getattr(node.targets[0], "id", "") in names else []
        yield from ((item.lineno, item.end_lineno or item.lineno) for item in spans)
