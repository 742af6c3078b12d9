"""The top-level definitions of a Python file."""

import ast
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeGuard

from musadata.gc_freeze import gc_frozen
from musadata.mining.reading.called_modules import name_forward
from musadata.mining.reading.effects import changed_names
from musadata.mining.reading.einops import FUNCTIONS, LAYERS
from musadata.mining.reading.local_imports import lazy_imports, lift_imports, names_type_checking

AVAILABLE = frozenset(sys.stdlib_module_names | {"torch", "numpy"})  # what a reference may import
IMPORTS = (ast.Import, ast.ImportFrom)
BLOCKS = (ast.If, ast.Try, ast.With, ast.For)
STATEMENTS = ("body", "orelse", "finalbody", "handlers")


@dataclass(frozen=True)
class Import:
    """A name bound by an import: module `module` itself, or what `name` is in it."""

    module: str
    name: str = ""


@dataclass(frozen=True, eq=False)
class Definition:
    """One top-level statement that binds or changes names. Lines are 1-based and inclusive."""

    module: str
    names: tuple[str, ...]
    node: ast.stmt
    first: int
    last: int

    @cached_property
    def key(self) -> tuple[str, int]:
        return self.module, self.first

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)


@dataclass
class ParsedModule:
    """The top level of one file. `bindings`: the last binding of each name; `stars`: modules imported with `*`."""

    name: str
    path: str
    is_package: bool
    text: str
    bindings: dict[str, Import | Definition] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    submodules: set[str] = field(default_factory=set)
    flags: dict[str, bool] = field(default_factory=dict)  # names that are constant if an optional package is missing
    absent: dict[str, Import] = field(default_factory=dict)  # names that only an optional package would bind
    main: list[ast.stmt] = field(default_factory=list)  # the statements of its `__main__` block
    changes: list[tuple[Definition, frozenset[str]]] = field(default_factory=list)  # statements, and what they change

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines(keepends=True)

    @cached_property
    def einops(self) -> dict[str, str]:
        """Dotted names of functions and layers of einops in this file -> their names in einops."""
        found: dict[str, str] = {}
        for name, binding in self.bindings.items():
            if isinstance(binding, Import) and binding.module in ("einops", "einops.layers.torch"):
                known = {binding.name} if binding.name else FUNCTIONS
                found |= {name if binding.name else f"{name}.{item}": item for item in known & (FUNCTIONS | LAYERS)}
        return found

    def function(self, name: str) -> ast.FunctionDef | None:
        """The function of this name that the file defines."""
        binding = self.bindings.get(name)
        node = binding.node if isinstance(binding, Definition) else None
        return node if isinstance(node, ast.FunctionDef) else None

    def classes(self) -> list[Definition]:
        found = [item for item in self.bindings.values() if isinstance(item, Definition) and item.is_class]
        return sorted(set(found), key=lambda item: item.first)


def parse_module(name: str, path: str, text: str) -> ParsedModule:
    """Parse a file; `name` is its dotted name.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: what Python raises for text that it cannot parse.
    """
    with warnings.catch_warnings(), gc_frozen(len(text)):
        warnings.simplefilter("ignore")  # such as invalid escapes in strings
        tree, text = name_forward(ast.parse(text), text)
        text, lifted = lift_imports(text, tree, AVAILABLE)
        tree = ast.parse(text) if lifted else tree
    module = ParsedModule(name, path, path.endswith("__init__.py"), text)
    statements = list(_live_statements(module, tree.body))
    for node in [*lazy_imports(tree), *lifted, *statements]:
        _bind(module, node)
    for node in statements:
        changed = changed_names(node, module.function)
        if changed:
            module.changes.append((_definition(module, node), changed))
    return module


def parse_beside(module: ParsedModule, name: str, text: str, names: Iterable[str]) -> ParsedModule:
    """Parse a text that uses names of a file; no statement imports them, as the file may have a name that none takes.

    `name`: of the new module, after the file's own.
    """
    made = parse_module(f"{module.name}{name}", module.path, text)
    for used in names:
        made.bindings[used] = Import(module.name, used)
    return made


def _live_statements(module: ParsedModule, body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, with one branch of each `try` around imports, and without `if TYPE_CHECKING`."""
    for node in body:
        if isinstance(node, ast.If) and names_type_checking(node.test):
            yield from _live_statements(module, node.orelse)
        elif isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            module.main = node.body
        elif isinstance(node, ast.If) and all(isinstance(item, IMPORTS) for item in node.body):
            # Such as imports that depend on a version. A whole `if` would hide that its names are imported.
            yield from _live_statements(module, node.body if all(map(_available, node.body)) else node.orelse)
        elif isinstance(node, ast.Try) and any(isinstance(item, IMPORTS) for item in node.body):
            if all(_available(item) for item in node.body):
                yield from _live_statements(module, [*node.body, *node.orelse, *node.finalbody])
            elif node.handlers:
                module.absent.update(_imports(module, node.body))
                module.flags.update(_constant_flags(node.handlers[0].body))
                if node.handlers[0].name:  # what was raised; its class stands for it
                    module.bindings.setdefault(node.handlers[0].name, Import("builtins", "ImportError"))
                yield from _live_statements(module, [*node.handlers[0].body, *node.finalbody])
        else:
            yield node


def _constant_flags(body: Iterable[ast.stmt]) -> Iterator[tuple[str, bool]]:
    """Names that a branch sets to False or None (or True)."""
    for node in body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and node.value.value in (True, False, None)
        ):
            yield from ((target.id, bool(node.value.value)) for target in node.targets if isinstance(target, ast.Name))


def _available(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return all(alias.name.split(".")[0] in AVAILABLE for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.level > 0 or (node.module or "").split(".")[0] in AVAILABLE
    return True


def _bind(module: ParsedModule, node: ast.stmt) -> None:
    if isinstance(node, IMPORTS):
        module.bindings.update(_imports(module, [node]))
        if isinstance(node, ast.Import):
            module.submodules.update(alias.name for alias in node.names if not alias.asname)
        elif any(alias.name == "*" for alias in node.names):
            module.stars.append(absolute_module(module.name, module.is_package, node.module, node.level))
        return
    definition = _definition(module, node)
    if isinstance(node, ast.Assign) and [ast.unparse(item) for item in node.targets] == [ast.unparse(node.value)]:
        return  # `name = name` keeps what is imported
    imports = [item for item in ast.walk(node) if isinstance(item, IMPORTS)] if isinstance(node, BLOCKS) else []
    again = {name for item in imports for name in bound_names(item)}  # such as `import torch.fft` in a branch
    kept = {name for name in again if isinstance(module.bindings.get(name), Import)}
    module.bindings.update({name: definition for name in definition.names if name not in kept})


def _imports(module: ParsedModule, body: Iterable[ast.stmt]) -> Iterator[tuple[str, Import]]:
    """The names that imports bind."""
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                yield bound, Import(alias.name if alias.asname else bound)
        elif isinstance(node, ast.ImportFrom):
            source = absolute_module(module.name, module.is_package, node.module, node.level)
            yield from (
                (item.asname or item.name, Import(source, item.name)) for item in node.names if item.name != "*"
            )


def _definition(module: ParsedModule, node: ast.stmt) -> Definition:
    names = tuple(dict.fromkeys(bound_names(node)))
    return Definition(module.name, names, node, first_line(node), node.end_lineno or node.lineno)


def first_line(node: ast.stmt) -> int:
    """The first line of a statement, including its decorators."""
    return min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))])


def absolute_module(current: str, is_package: bool, module: str | None, level: int) -> str:
    """The dotted name that `from {level dots}{module} import …` means inside module `current`."""
    if level == 0:
        return module or ""
    parts = current.split(".")
    parts = parts[: len(parts) - level + (1 if is_package else 0)]
    return ".".join([*parts, *([module] if module else [])])


def bound_names(node: ast.stmt) -> Iterator[str]:
    """Names that a statement binds in its own scope."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, IMPORTS):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (item.id for item in ast.walk(target) if _is_bound(item))
    else:
        for name in STATEMENTS:
            for child in getattr(node, name, []):
                yield from bound_names(child)


def _is_bound(item: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
