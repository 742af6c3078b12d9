"""What names in Python files mean: extensions, their bindings, and modules of the repository that pass them on."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from musadata.mining.kernels.extensions import Extension
from musadata.mining.reading.parsing import absolute_module
from musadata.mining.slicing.definition_index import module_name

MAX_HOPS = 4  # files that pass a name on
OPERATORS = "torch.ops."
ROOTS = ("src", "lib", "python")  # folders that hold packages, as the slicer's index knows them


@dataclass(frozen=True)
class Alias:
    """What a name means in one file: an extension's dotted name ("pkg._C"), or "pkg._C:forward" for one binding.

    `extension` is set if this file builds the extension. `module`: the name means a Python file of the repository.
    `lazy`: the file's `__getattr__` loads it.
    """

    target: str
    extension: Extension | None = None
    module: str = ""
    lazy: bool = False


class ExtensionNames:
    """The names of a repository's Python files that mean extensions.

    Args:
        parse: gives a file's syntax tree.
        may_name: the files that can name an extension; others are not parsed.
        importable: last names of extensions and libraries.
        loaded: extensions by the file that loads them and the variable there; those that a setup script builds by ""
            and their dotted name.
    """

    def __init__(
        self,
        parse: Callable[[str], ast.Module | None],
        may_name: frozenset[str],
        importable: frozenset[str],
        loaded: Mapping[tuple[str, str], Extension],
    ):
        self._parse, self._may_name, self._importable, self._loaded = parse, may_name, importable, loaded
        self._paths = {module_name(path): path for path in sorted(may_name)}
        for name, path in list(self._paths.items()):
            root, _, installed = name.partition(".")
            if root in ROOTS and installed:
                self._paths.setdefault(installed, path)
        self._known: dict[tuple[str, int], dict[str, Alias]] = {}

    def of(self, path: str, hops: int = MAX_HOPS) -> dict[str, Alias]:
        """The names in a file: variables, dotted imports, and "function()" for what a function returns."""
        if path not in self._may_name or not hops:
            return {}
        if (path, hops) not in self._known:
            module = self._parse(path)
            self._known[path, hops] = dict(self._read(path, module, hops)) if module is not None else {}
        return self._known[path, hops]

    def meaning(self, path: str, chain: list[str]) -> tuple[Alias, list[str]] | None:
        """What an expression means, and the names behind it: ["_C", "ops", "hash"] -> `_C`, ["ops", "hash"]."""
        if chain[:2] == ["torch", "ops"]:
            return (Alias(".".join(chain[:3])), chain[3:]) if len(chain) > 3 else None
        known = self.of(path)
        for _ in range(MAX_HOPS):
            for length in range(len(chain), 0, -1):
                key = ".".join(chain[:length])
                alias = known.get(key) or known.get(key.removesuffix("()"))
                if alias is not None:
                    break
            else:
                return None
            rest = chain[length:]
            if not alias.module:
                return alias, rest
            known, chain = self.of(alias.module), rest
        return None

    def _read(self, path: str, module: ast.Module, hops: int) -> Iterator[tuple[str, Alias]]:
        found = dict(self._imported(path, module, hops))
        found |= {name: Alias(name.removesuffix("()"), item) for (of, name), item in self._loaded.items() if of == path}
        for assignment in [item for item in ast.walk(module) if isinstance(item, ast.Assign)]:
            for name, alias in self._assigned(assignment, found, hops):
                found.setdefault(name, alias)
        makers: dict[str, tuple[int, Alias]] = {}
        for function in [item for item in ast.walk(module) if isinstance(item, ast.FunctionDef)]:
            for name in _returned(function) & found.keys():
                found.setdefault(f"{function.name}()", found[name])
            makers |= _lookups(function, found)
        yield from found.items()
        for node in module.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                named = _made(node.value, makers)
                if named:
                    yield node.targets[0].id, named

    def _imported(self, path: str, module: ast.Module, hops: int) -> Iterator[tuple[str, Alias]]:
        package = path.endswith("__init__.py")
        for node in ast.walk(module):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    file = self._paths.get(alias.name)
                    if alias.name.rpartition(".")[2] in self._importable and not file:
                        yield alias.asname or alias.name, Alias(alias.name)
                    elif file and file != path:
                        yield alias.asname or alias.name, Alias(alias.name, module=file)
                    if not alias.asname:
                        yield from self._inside(alias.name.partition(".")[0])
            elif isinstance(node, ast.ImportFrom):
                source = absolute_module(module_name(path), package, node.module, node.level)
                for alias in node.names:
                    yield from self._from(path, source, alias, hops)

    def _inside(self, package: str) -> Iterator[tuple[str, Alias]]:
        """Extensions that a name of a package reaches: `import pkg`, `pkg._C.forward`."""
        for (path, name), extension in self._loaded.items():
            if not path and name.startswith(f"{package}."):
                yield extension.name, Alias(extension.name)

    def _from(self, path: str, source: str, alias: ast.alias, hops: int) -> Iterator[tuple[str, Alias]]:
        """What `from source import name` binds."""
        own, name = alias.asname or alias.name, alias.name
        file, within = self._paths.get(f"{source}.{name}"), self._paths.get(source)
        passed = self.of(within, hops - 1) if within and within != path else {}
        if f"{name}()" in passed:
            yield f"{own}()", passed[f"{name}()"]
        if name in passed:
            yield own, passed[name]
        elif name in self._importable and not file:
            yield own, Alias(f"{source}.{name}")
        elif source.rpartition(".")[2] in self._importable and not within:
            yield own, Alias(f"{source}:{name}")
        elif file and file != path:
            yield own, Alias(f"{source}.{name}", module=file)

    def _assigned(self, node: ast.Assign, found: Mapping[str, Alias], hops: int) -> Iterator[tuple[str, Alias]]:
        """What a variable is bound to: another name, a call with an extension's name, or what a function returns."""
        target = node.targets[0]
        variable = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
        if not isinstance(variable, ast.Name):
            return
        if isinstance(node.value, ast.Call):
            texts = [text for item in node.value.args if (text := _text(item))]
            yield from ((variable.id, Alias(text)) for text in texts if text.rpartition(".")[2] in self._importable)
            yield from self._lazy(target, node.value)
        chain = chain_of(node.value)
        known = ".".join(chain) if chain else ""
        if known in found:
            yield variable.id, found[known]
        elif chain and chain[:2] == ["torch", "ops"] and len(chain) == 3:
            yield variable.id, Alias(known)
        elif chain:
            head = found.get(chain[0])
            through = self.of(head.module, hops - 1).get(".".join(chain[1:])) if head and head.module else None
            if through is not None:
                yield variable.id, through
            elif head and not head.module and ":" not in head.target and len(chain) == 2 and "(" not in known:
                yield variable.id, Alias(f"{head.target}:{chain[1]}", head.extension)

    def _lazy(self, target: ast.expr, call: ast.Call) -> Iterator[tuple[str, Alias]]:
        """Names that a module's `__getattr__` loads on first use: `__getattr__ = lazy("_C", extension="pkg_cuda")`."""
        if any(isinstance(item, ast.Name) and item.id == "__getattr__" for item in ast.walk(target)):
            texts = [text for item in [*call.args, *(item.value for item in call.keywords)] if (text := _text(item))]
            built = [text for text in texts if text.rpartition(".")[2] in self._importable]
            yield from ((text, Alias(built[0], lazy=True)) for text in texts if built and text.isidentifier())


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def chain_of(node: ast.expr) -> list[str]:
    """An expression of names, attributes and calls as a list of words, "f()" for a call; [] for anything else.

    `getattr(x, "name")` is `x.name`.
    """
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        inner = chain_of(node.value)
        return [*inner, node.attr] if inner else []
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            inner, name = chain_of(node.args[0]), getattr(node.args[1], "value", None)
            return [*inner, name] if inner and isinstance(name, str) else []
        inner = chain_of(node.func)
        return [*inner[:-1], f"{inner[-1]}()"] if inner else []
    return []


def _returned(function: ast.FunctionDef) -> set[str]:
    """The names that a function returns."""
    values = [item.value for item in ast.walk(function) if isinstance(item, ast.Return) and item.value is not None]
    return {".".join(chain_of(value)) for value in values} - {""}


def _lookups(function: ast.FunctionDef, found: Mapping[str, Alias]) -> dict[str, tuple[int, Alias]]:
    """A function that looks a binding up by an argument: its name, the argument's place, and the extension."""
    arguments = [item.arg for item in function.args.args]
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            holder = chain_of(node.args[0]) if len(node.args) > 1 else []
            key = node.args[1] if len(node.args) > 1 else None
            if isinstance(key, ast.Name) and key.id in arguments and ".".join(holder) in found:
                return {function.name: (arguments.index(key.id), found[".".join(holder)])}
    return {}


def _made(value: ast.expr, makers: Mapping[str, tuple[int, Alias]]) -> Alias | None:
    """The binding that a call of such a function gives."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or value.func.id not in makers:
        return None
    place, alias = makers[value.func.id]
    named = getattr(value.args[place], "value", None) if place < len(value.args) else None
    plain = isinstance(named, str) and re.fullmatch(r"\w+", named) is not None
    return Alias(f"{alias.target}:{named!s}", alias.extension) if plain else None
