"""Linking Python wrappers to the CUDA kernels that their authors wrote.

Wrapper or `autograd.Function` -> binding -> host function -> `__global__` kernel. A wrapper is linked through the
extension that it imports, never by the name of a function alone: every extension has a `forward`.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from musadata.mining.kernels.extensions import Extension
from musadata.mining.kernels.native_parsing import Binding, NativeFunction
from musadata.mining.kernels.repository import Alias, Repository, folder_distance, inline_path, wrapper_kind
from musadata.sources.protocol import Tree

MAX_DEPTH = 8  # calls from a bound function to a kernel


@dataclass(frozen=True)
class Pair:
    """One use of a kernel from Python. Places are "path:first-last"."""

    wrapper: str  # the class or function on top level that uses it
    wrapper_kind: str  # "function", "class", "autograd", "module"
    wrapper_place: str
    extension: str
    binding: str
    binding_place: str
    host: str
    host_place: str
    kernels: tuple[str, ...]
    kernel_places: tuple[str, ...]


@dataclass(frozen=True)
class Use:
    """A wrapper that calls something of an extension: "pkg._C", "torch.ops.ns", or the variable it was loaded into.

    `method`: the calling method of the wrapper, "" for a function.
    """

    wrapper: ast.FunctionDef | ast.ClassDef
    path: str
    target: str
    name: str
    extension: Extension | None = None
    method: str = ""


@dataclass(frozen=True)
class Link:
    """A use, and all native code that it reaches. `reached`: every function on the way, kernels included."""

    use: Use
    pair: Pair
    binding: Binding
    extension: Extension
    reached: tuple[NativeFunction, ...]


def find_pairs(tree: Tree) -> list[Pair]:
    """Every link from a wrapper to at least one kernel, sorted by wrapper."""
    linker = Linker(Repository(tree))
    found = [link.pair for path in linker.repository.python_paths for link in linker.links(path)]

    def order(pair: Pair) -> tuple[str, int, str, str]:
        path, _, lines = pair.wrapper_place.rpartition(":")
        return path, int(lines.partition("-")[0]), pair.extension, pair.binding

    return sorted(set(found), key=order)


class Linker:
    """Follows calls of extensions into the native code of one repository."""

    def __init__(self, repository: Repository):
        self.repository = repository
        self._functions: dict[str, list[NativeFunction]] = defaultdict(list)
        self._registered: dict[str, set[str]] = defaultdict(set)
        for file in repository.native.values():
            for function in file.functions:
                self._functions[function.name].append(function)
            for name, target in file.registrations:
                self._registered[name].add(target)
        known = [item for items in self._functions.values() for item in items]
        self._kernel_names = frozenset(item.name for item in known if item.is_kernel)

    def links(self, path: str) -> list[Link]:
        """The links of a file's top-level classes and functions, in its order."""
        found = [link for use in self.uses(path) if (link := self.link(use)) is not None]
        return list({(link.pair, link.use.method): link for link in found}.values())

    def uses(self, path: str) -> Iterator[Use]:
        """Every attribute of an extension that a top-level class or function of a file uses."""
        module = self.repository.module(path)
        if module is None or not self.repository.bindings:
            return
        aliases = self.repository.aliases(path)
        for node in module.body:
            if isinstance(node, ast.FunctionDef):
                yield from _uses_in(node, node, path, aliases, "")
            elif isinstance(node, ast.ClassDef):
                for item in node.body:
                    method = item.name if isinstance(item, ast.FunctionDef) else ""
                    yield from _uses_in(item, node, path, aliases, method)

    def link(self, use: Use) -> Link | None:
        """The kernels behind a use, None if there are none or the extension does not bind that name."""
        candidates = [
            (binding, extension)
            for binding in self.repository.bindings
            if binding.name == use.name
            for extension in self._extensions_of(binding, use)
        ]
        reached = []
        for binding, extension in candidates:
            functions = self._reach(binding, extension)
            if any(item.is_kernel for item in functions):
                reached.append((folder_distance(use.path, binding.path), binding.path, binding, extension, functions))
        if not reached:
            return None
        _, _, binding, extension, functions = min(reached, key=lambda item: (item[0], item[1], item[2].line))
        kernels = [item for item in functions if item.is_kernel]
        pair = _pair(use, binding, extension, self._host(binding, extension), kernels)
        return Link(use, pair, binding, extension, tuple(functions))

    def _extensions_of(self, binding: Binding, use: Use) -> list[Extension]:
        """The extensions through which this use can refer to this binding."""
        if use.target.startswith("torch.ops."):
            built = [item for item in self.repository.extensions if binding.path in self.repository.files_of(item)]
            any_file = Extension(use.target, "", frozenset())
            return (built or [any_file])[:1] if binding.library == use.target else []
        found = [use.extension] if use.extension is not None else []
        if not found:
            last = use.target.rpartition(".")[2]
            found = [item for item in self.repository.extensions if item.name.rpartition(".")[2] == last]
            if not found and binding.library == last:
                found = [Extension(last, binding.path.rpartition("/")[0], frozenset())]
        return [item for item in found if self._is_bound_in(item, binding)]

    def _is_bound_in(self, extension: Extension, binding: Binding) -> bool:
        if extension.inline:
            return binding.path == inline_path(extension)
        named = binding.library in ("TORCH_EXTENSION_NAME", extension.name.rpartition(".")[2], extension.name)
        return named and binding.path in self.repository.files_of(extension)

    def _host(self, binding: Binding, extension: Extension) -> NativeFunction:
        near = self._near(binding.target, binding.path, "", extension)
        lambda_ = NativeFunction(binding.target, binding.path, binding.line, binding.line, False, binding.calls)
        return near[0] if near else lambda_

    def _reach(self, binding: Binding, extension: Extension) -> list[NativeFunction]:
        """The functions that a binding reaches by calls inside its extension, sorted by place."""
        kernels: dict[tuple[str, int], NativeFunction] = {}
        front = [(name, binding.path, "") for name in [binding.target, *sorted(binding.calls)]]
        seen: dict[tuple[str, int], NativeFunction] = {}
        for _ in range(MAX_DEPTH):
            following: list[tuple[str, str, str]] = []
            for name, path, scope in front:
                for function in self._near(name, path, scope, extension):
                    place = (function.path, function.first)
                    if place in seen:
                        continue
                    seen[place] = function
                    if function.is_kernel:
                        kernels[place] = function
                    else:
                        following += self._onward(function, extension, kernels)
            front = following
        found = seen | kernels
        return [found[key] for key in sorted(found)]

    def _onward(
        self,
        function: NativeFunction,
        extension: Extension,
        found: dict[tuple[str, int], NativeFunction],
    ) -> list[tuple[str, str, str]]:
        """The names that a function calls. Kernels that it launches are added to `found`, overloads resolved."""
        launched = set()
        for name, arguments in sorted(function.launches):
            known = [item for item in self._near(name, function.path, function.scope, extension) if item.is_kernel]
            exact = [item for item in known if item.parameters == arguments]
            for kernel in exact or known:
                found[kernel.path, kernel.first] = kernel
            if known:
                launched.add(name)
        called = function.calls | (function.mentions & self._kernel_names)
        called |= {target for call in function.calls for target in self._registered.get(call, ())}
        return [(call, function.path, function.scope) for call in sorted(called - launched)]

    def _near(self, name: str, path: str, scope: str, extension: Extension) -> list[NativeFunction]:
        """The definitions that a name can mean in `scope`: of this file, else the nearest in the extension."""
        qualifier, _, last = name.rpartition("::")
        known = _in_scope(self._functions.get(last, []), qualifier, scope)
        here = [item for item in known if item.path == path]
        if here:
            return here
        visible, files = self.repository.visible_from(path), self.repository.files_of(extension)
        inside = [item for item in known if item.path in visible] or [item for item in known if item.path in files]
        if not inside:
            return []
        best = min(folder_distance(path, item.path) for item in inside)
        return [item for item in inside if folder_distance(path, item.path) == best]


def _uses_in(
    node: ast.AST, wrapper: ast.FunctionDef | ast.ClassDef, path: str, aliases: dict[str, Alias], method: str
) -> Iterator[Use]:
    for item in ast.walk(node):
        if isinstance(item, ast.Attribute):
            chain = ast.unparse(item)
            root, _, name = chain.rpartition(".")
            if root.startswith("torch.ops.") and root.count(".") == 2:
                yield Use(wrapper, path, root, name, None, method)
            elif root in aliases:
                yield Use(wrapper, path, aliases[root].target, name, aliases[root].extension, method)
        elif isinstance(item, ast.Name) and item.id in aliases and ":" in aliases[item.id].target:
            target, _, name = aliases[item.id].target.partition(":")
            yield Use(wrapper, path, target, name, None, method)


def _in_scope(known: list[NativeFunction], qualifier: str, scope: str) -> list[NativeFunction]:
    """The definitions that a qualified name can mean: of its scope, or of the innermost scope around the caller."""
    if qualifier:
        exact = [item for item in known if f"::{item.scope}".endswith(f"::{qualifier}")]
        return exact or known
    around = [item for item in known if f"{scope}::".startswith(f"{item.scope}::") or not item.scope]
    innermost = max((len(item.scope) for item in around), default=0)
    return [item for item in around if len(item.scope) == innermost] or known


def _pair(
    use: Use, binding: Binding, extension: Extension, host: NativeFunction, kernels: list[NativeFunction]
) -> Pair:
    return Pair(
        wrapper=use.wrapper.name,
        wrapper_kind=wrapper_kind(use.wrapper),
        wrapper_place=f"{use.path}:{use.wrapper.lineno}-{use.wrapper.end_lineno}",
        extension=extension.name,
        binding=binding.name,
        binding_place=f"{binding.path}:{binding.line}",
        host=host.name,
        host_place=f"{host.path}:{host.first}-{host.last}",
        kernels=tuple(item.name for item in kernels),
        kernel_places=tuple(f"{item.path}:{item.first}-{item.last}" for item in kernels),
    )
