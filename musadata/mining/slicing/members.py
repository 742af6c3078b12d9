"""The members of a class, and which of them a slice needs."""

import ast
from dataclasses import dataclass
from functools import cached_property

from musadata.mining.slicing.parsing import bound_names

# Called by Python itself while a module is built or run.
CALLED_BY_PYTHON = frozenset(
    [
        "__init__", "__new__", "__call__", "__len__", "__getitem__", "__iter__", "__next__", "__getattr__",
        "__setattr__", "__contains__", "__post_init__", "__enter__", "__exit__", "__init_subclass__",
        "__class_getitem__", "__hash__", "__eq__", "__torch_function__",
    ]
)  # fmt: skip


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
        names = {item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "") for item in decorators}
        if names & {"overload", "_overload_method"} or is_docstring(self.node):
            return True
        return "__doc__" in self.names or "__constants__" in self.names


def class_members(node: ast.ClassDef) -> list[Member]:
    """A class's body, statement by statement."""
    members = []
    for item in node.body:
        decorators = getattr(item, "decorator_list", [])
        first = min([item.lineno, *(decorator.lineno for decorator in decorators)])
        members.append(Member(item, tuple(bound_names(item)), first, item.end_lineno or item.lineno))
    return members


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
