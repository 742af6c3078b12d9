"""Methods that no call enters, as those that every subclass overrides. Runs inside the sandbox."""

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

import torch
from torch import nn

from musadata.mining.reading.dotted_names import last_name
from musadata.mining.reading.parsing import first_line

# Methods that Python and torch call by themselves, `__enter__` say, but for those that only copies need.
CALLING = (nn.Module, torch.Tensor, dict, AbstractContextManager)
OF_COPIES = {"__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__repr__", "__str__"}
SPECIAL = frozenset(name for kind in CALLING for name in dir(kind)) - OF_COPIES


@contextmanager
def watch_entries(file: str) -> Iterator[set[str]]:
    """The qualified names of a file's functions that are entered in the meantime."""
    entered: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename == file:
            entered.add(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield entered
    finally:
        sys.setprofile(before)


def without_idle_methods(source: str, entered: Collection[str]) -> str:
    """The source without methods, never entered nor named elsewhere, of classes of which other methods are entered.

    A class whose static methods alone are entered has no instance yet: code that never ran may make one.
    """
    tree = ast.parse(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    families = {name: family(name, classes) for name in classes}
    idle = [
        (owner.name, node)
        for owner in classes.values()
        if owner.name == "Model"
        or owner.name in families.get("Model", ())
        or any(f"{owner.name}.{item.name}" in entered for item in _of_instances(owner))
        for node in owner.body
        if isinstance(node, ast.FunctionDef) and _may_go(node) and f"{owner.name}.{node.name}" not in entered
    ]
    while idle:
        named = set(_mentions(tree, {id(node) for _, node in idle}))
        left = [
            (owner, node)
            for owner, node in idle
            if not any(
                ("", node.name) in named or (one, node.name) in named
                for one, family in families.items()
                if one == owner or owner in family or one in families[owner]
            )
        ]
        if len(left) == len(idle):
            return _without(source, tree, [node for _, node in idle])
        idle = left
    return source


def _without(source: str, tree: ast.Module, methods: Sequence[ast.FunctionDef]) -> str:
    """The source without some methods; `pass` in a class that has no others."""
    lines, gone = source.splitlines(keepends=True), {id(node) for node in methods}
    for owner in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
        left = [item for item in owner.body if id(item) not in gone]
        for node in [item for item in owner.body if id(item) in gone]:
            first, last = first_line(node) - 1, node.end_lineno or 0
            lines[first:last] = [""] * (last - first)
            if not left and node is owner.body[0]:
                lines[first] = " " * node.col_offset + "pass\n"
    return re.sub(r"\n{4,}", "\n\n\n", "".join(lines))


def _of_instances(owner: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods of instances; of a function of autograd, of which there are none, all."""
    is_function = any(last_name(base) == "Function" for base in owner.bases)
    methods = [item for item in owner.body if isinstance(item, ast.FunctionDef)]
    return [item for item in methods if is_function or not item.decorator_list]


def _may_go(node: ast.FunctionDef) -> bool:
    marks = {ast.unparse(one) for one in node.decorator_list}
    is_plain = marks <= {"staticmethod", "classmethod", "property", f"{node.name}.setter"}
    return is_plain and not (node.name.startswith("__") and node.name in SPECIAL)


def family(name: str, classes: Mapping[str, ast.ClassDef]) -> set[str]:
    """The classes of a file that a class inherits from, directly or indirectly."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        above = {base.id for base in classes[waiting.pop()].bases if isinstance(base, ast.Name)} & classes.keys()
        waiting += above - found
        found |= above
    return found


def _mentions(tree: ast.Module, idle: Collection[int]) -> Iterator[tuple[str, str]]:
    """Names of attributes and texts, each with the class whose `self` has it; "" for any other object."""
    for top in tree.body:
        waiting: list[ast.AST] = [top]
        while waiting:
            node = waiting.pop()
            if id(node) in idle:
                continue
            waiting += ast.iter_child_nodes(node)
            if isinstance(node, ast.Attribute):
                own = isinstance(top, ast.ClassDef) and isinstance(node.value, ast.Name) and node.value.id == "self"
                yield (top.name if own and isinstance(top, ast.ClassDef) else "", node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield "", node.value
