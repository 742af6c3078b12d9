"""The members of a class, which of them a slice needs, and what is kept of docstrings."""

import ast
import re
from dataclasses import dataclass
from functools import cached_property

from musadata.mining.reading.decorators import NAMES
from musadata.mining.reading.dotted_names import last_name
from musadata.mining.reading.parsing import bound_names, first_line

CALLED_BY_PYTHON = frozenset(NAMES["called_by_python"])
MAX_LENGTH = 96  # of a docstring's first sentence
ROLE = re.compile(r":[\w:]+:`~?([^`<]*?)\s*(?:<[^`]*>)?`")


@dataclass(frozen=True, eq=False)
class Member:
    """One statement of a class's body. Lines include its decorators."""

    node: ast.stmt
    names: tuple[str, ...]
    first: int
    last: int

    def is_needed(self, attributes: set[str], in_module: bool) -> bool:
        """Whether a slice needs it. Only `nn.Module`s lose members: other classes may be used in unknown ways."""
        if self._never:
            return False
        called = not CALLED_BY_PYTHON.isdisjoint(self.names)
        return not in_module or called or not attributes.isdisjoint(self.names)

    @cached_property
    def _never(self) -> bool:
        decorators = getattr(self.node, "decorator_list", [])
        names = set(map(last_name, decorators))
        if names & {"overload", "_overload_method"} or is_docstring(self.node):
            return True
        return "__doc__" in self.names or "__constants__" in self.names


def class_members(node: ast.ClassDef) -> list[Member]:
    """A class's body, statement by statement."""
    return [
        Member(item, tuple(bound_names(item)), first_line(item), item.end_lineno or item.lineno) for item in node.body
    ]


def replaced_names(node: ast.ClassDef) -> frozenset[str]:
    """Methods that a class overrides without calling the overridden one."""
    return frozenset(item.name for item in node.body if isinstance(item, ast.FunctionDef) and not _calls_up(item))


def _calls_up(function: ast.FunctionDef) -> bool:
    """Whether a method calls the one that it overrides, by `super()` or by a class's name."""
    return any(
        isinstance(item, ast.Attribute)
        and item.attr == function.name
        and not (isinstance(item.value, ast.Name) and item.value.id == "self")
        for item in ast.walk(function)
    )


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def docstring_text(node: ast.AST) -> str:
    """All string literals of a docstring statement, or of an assignment to `__doc__`, joined."""
    found = [item for item in ast.walk(node) if isinstance(item, ast.Constant)]
    found.sort(key=lambda item: (item.lineno, item.col_offset))
    return "".join(item.value for item in found if isinstance(item.value, str))


def first_sentence(node: ast.AST) -> str:
    """The first sentence of a docstring statement, "" if it has none that fits on one line."""
    paragraph = docstring_text(node).strip().split("\n\n")[0]
    sentence = re.split(r"(?<=[.!])\s", " ".join(paragraph.split()))[0]
    sentence = ROLE.sub(r"\1", sentence).replace("``", "`").strip()
    plain = len(sentence) <= MAX_LENGTH and not re.search(r'[\\{}]|"""|:\w+:|>>>|::', sentence) and sentence.isascii()
    return sentence.rstrip(":") if plain and len(sentence) > 8 and not sentence.endswith('"') else ""
