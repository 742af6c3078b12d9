"""The names that code refers to."""

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

WORD = re.compile(r"[^\W\d]\w*")
BUILTIN = frozenset(dir(builtins))
LONGEST = 60  # characters of a string that may name an attribute


@dataclass
class References:
    """Names that code refers to.

    `variables`: plain names. `names`: these, attributes, and words in strings, which may name an attribute. `unsure`:
    those in code that stays but was never executed. `of_self`: attributes of `self`, by class.
    """

    variables: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    of_self: dict[str, set[str]] = field(default_factory=dict)

    def mention(self, node: ast.AST, ran: bool, owner: str) -> None:
        """Note the names in one node, without its children."""
        if isinstance(node, ast.Name):
            self.variables.add(node.id)
        for name in _names(node):
            self.names.add(name)
            if not ran:
                self.unsure.add(name)
        if isinstance(node, ast.Attribute) and _is_self(node.value):
            self.of_self.setdefault(owner, set()).add(node.attr)

    def add(self, other: "References", ran: bool, owner: str) -> None:
        """Note what `mentions_of` found."""
        self.variables |= other.variables
        self.names |= other.names
        self.unsure |= other.unsure if ran else other.names
        for names in other.of_self.values():
            self.of_self.setdefault(owner, set()).update(names)


def mentions_of(node: ast.AST) -> References:
    """All names that a piece of code refers to."""
    found = References()
    for item, ran in _walk(node, True):
        found.mention(item, ran, "")
    return found


def _walk(node: ast.AST, ran: bool) -> Iterator[tuple[ast.AST, bool]]:
    yield node, ran
    ran = ran and not isinstance(node, ast.Lambda)
    for place, child in enumerate(ast.iter_child_nodes(node)):
        # The operator is the first child of `and` and `or`, the first operand the second.
        yield from _walk(child, ran and not (isinstance(node, ast.BoolOp) and place > 1))


def _names(node: ast.AST) -> list[str]:
    """The names in one node: a string may name an attribute, and a called object may be a module."""
    if isinstance(node, ast.Call):
        return ["forward"] if _may_be_module(node.func) else []
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return WORD.findall(node.value) if len(node.value) <= LONGEST else []
    return []


def _may_be_module(function: ast.expr) -> bool:
    """Whether a call may enter a `forward`: `self.norm(x)`, `blocks[0](x)`, `layer(x)`."""
    if isinstance(function, ast.Name):
        return function.id not in BUILTIN
    while isinstance(function, ast.Attribute):
        if _is_self(function.value):
            return True
        function = function.value
    return not isinstance(function, ast.Name)


def _is_self(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
