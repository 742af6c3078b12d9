"""The names that code refers to."""

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

WORD = re.compile(r"[^\W\d]\w*")
BUILTIN = frozenset(dir(builtins))
MAKING = frozenset({"__init__", "__new__"})  # attributes of a class that make instances of it
ASKING = frozenset({"super", "isinstance", "issubclass"})  # functions that only compare with a class
LONGEST = 60  # characters of a string that may name an attribute


@dataclass
class References:
    """Names that code refers to.

    `variables`: plain names. `names`: these, attributes, and words in strings, which may name an attribute. `unsure`:
    those in code that stays but was never executed. `of_self`: attributes of `self`, by class. `of_super`: attributes
    of `super()`. `of_name`: attributes of plain names. `uses`: how often each name is referred to in a way that may
    make an instance, if it is a class; `bases`: how often of these as a base class.
    """

    variables: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    of_self: dict[str, set[str]] = field(default_factory=dict)
    of_super: set[str] = field(default_factory=set)
    of_name: set[tuple[str, str]] = field(default_factory=set)
    uses: Counter[str] = field(default_factory=Counter)
    bases: Counter[str] = field(default_factory=Counter)

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
        self._note_use(node)

    def _note_use(self, node: ast.AST) -> None:
        """Count the names that may make an instance, and those that a node above them only asks for something."""
        if isinstance(node, ast.Name):
            self.uses[node.id] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.uses.update(_names(node))
        elif isinstance(node, ast.ClassDef):
            self.bases.update(base.id for base in node.bases if isinstance(base, ast.Name))
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name):
                self.of_name.add((node.value.id, node.attr))
                self.uses[node.value.id] -= node.attr not in MAKING
            elif isinstance(node.value, ast.Call) and _is_self(node.value):
                self.of_super.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKING:
            asked = node.args[:1] if node.func.id == "super" else node.args[1:2]
            parts = [part for item in asked for part in (item.elts if isinstance(item, ast.Tuple) else [item])]
            self.uses.subtract(item.id for item in parts if isinstance(item, ast.Name))

    def add(self, other: "References", ran: bool, owner: str) -> None:
        """Note what `mentions_of` found."""
        self.variables |= other.variables
        self.names |= other.names
        self.unsure |= other.unsure if ran else other.names
        for names in other.of_self.values():
            self.of_self.setdefault(owner, set()).update(names)
        self.add_uses(other)

    def add_uses(self, other: "References") -> None:
        """Note how another piece of code uses names."""
        self.of_super |= other.of_super
        self.of_name |= other.of_name
        self.uses.update(other.uses)
        self.bases.update(other.bases)

    def makes(self, name: str) -> bool:
        """Whether code may make an instance of a class or of its subclasses, or hand the class on."""
        return self.uses[name] > 0 or self.uses["cls"] > 0

    def makes_itself(self, name: str) -> bool:
        """Whether code may make an instance of a class itself, not only of its subclasses."""
        return self.uses[name] > self.bases[name] or self.uses["cls"] > 0


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
        return ["forward"] if may_be_module(node.func) else []
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return WORD.findall(node.value) if len(node.value) <= LONGEST else []
    return []


def may_be_module(function: ast.expr) -> bool:
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
