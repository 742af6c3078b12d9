"""Methods that a class has, its own or those of a base class, and what a constructor hands on to the next one."""

import ast
from dataclasses import dataclass

from musadata.mining.reading.parsing import Definition
from musadata.mining.slicing.definition_index import PackageIndex, base_names
from musadata.mining.slicing.resolving import follow_chain

MAX_BASES = 8  # above each other


@dataclass(frozen=True)
class Constructor:
    """The arguments of a constructor without `self`.

    Attributes:
        names: in order, those that `*args` and `**kwargs` hand on to a base class included.
        required: those without a default.
        by_position: what is handed on cannot be given by keyword.
    """

    names: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    by_position: bool = False


def find_constructor(index: PackageIndex, definition: Definition, depth: int = 0) -> Constructor:
    """The constructor of a class of the tree; without arguments if none is found there."""
    node = definition.node
    module = index.module(definition.module)
    if not isinstance(node, ast.ClassDef) or module is None or depth > MAX_BASES:
        return Constructor()
    found = own_method(node, "__init__")
    if found is not None and not (_hands_on(found) and (found.args.vararg or found.args.kwarg)):
        return _constructor(found.args)
    above = Constructor()
    for name in base_names(node):
        meaning, _ = follow_chain(index, module, name)
        if isinstance(meaning, Definition):
            above = find_constructor(index, meaning, depth + 1)
        if above.names:
            break
    if found is None:
        return above
    own = _constructor(found.args)
    rest = tuple(name for name in above.names if name not in own.names)
    return Constructor(
        own.names + rest, own.required | (above.required & set(rest)), bool(rest) and found.args.kwarg is None
    )


def find_method(index: PackageIndex, definition: Definition, name: str, depth: int = 0) -> ast.FunctionDef | None:
    """The method of this name that a class of the tree has, its own or that of a base class there."""
    own = own_method(definition.node, name)
    module = index.module(definition.module)
    if own is not None or not isinstance(definition.node, ast.ClassDef) or module is None or depth > MAX_BASES:
        return own
    meanings = (follow_chain(index, module, base)[0] for base in base_names(definition.node))
    above = (find_method(index, item, name, depth + 1) for item in meanings if isinstance(item, Definition))
    return next((method for method in above if method is not None), None)


def own_method(node: ast.AST, name: str) -> ast.FunctionDef | None:
    """The method of this name that a class itself defines."""
    functions = (item for item in getattr(node, "body", ()) if isinstance(item, ast.FunctionDef))
    return next((item for item in functions if item.name == name), None)


def _hands_on(constructor: ast.FunctionDef) -> bool:
    """Whether a constructor calls that of its base class with a star."""
    for call in [node for node in ast.walk(constructor) if isinstance(node, ast.Call)]:
        starred = any(isinstance(item, ast.Starred) for item in call.args) or any(
            not item.arg for item in call.keywords
        )
        if starred and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__":
            return True
    return False


def _constructor(arguments: ast.arguments) -> Constructor:
    named = [*arguments.posonlyargs, *arguments.args][1:]
    split = len(named) - len(arguments.defaults)
    required = {item.arg for item in named[: max(0, split)]}
    keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    required |= {item.arg for item, default in keyword if default is None}
    return Constructor(tuple(item.arg for item in (*named, *arguments.kwonlyargs)), frozenset(required))
