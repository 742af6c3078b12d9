"""Linking Python wrappers to the CUDA kernels that their authors wrote.

Wrapper or `autograd.Function` -> binding -> host function -> `__global__` kernel. A wrapper is linked through the
extension that it imports, never by the name of a function alone: every extension has a `forward`.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from musadata.mining.kernels.extension_names import OPERATORS, Alias, chain_of
from musadata.mining.kernels.extensions import Extension
from musadata.mining.kernels.native_bindings import EXTENSION, Binding
from musadata.mining.kernels.native_parsing import NativeFunction
from musadata.mining.kernels.repository import Definition, Repository, folder_distance, inline_path, wrapper_kind
from musadata.sources.protocol import Tree

MAX_DEPTH = 12  # calls from a bound function to a kernel
MAX_MACROS = 6  # macros inside macros
MIN_NAME = 3  # letters of a kernel that is only mentioned


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
        self._bound = {binding.name for binding in repository.bindings}
        self._functions: dict[str, list[NativeFunction]] = defaultdict(list)
        self._methods: dict[str, list[NativeFunction]] = defaultdict(list)  # by their class
        self._pastes: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._members: dict[str, set[str]] = defaultdict(set)
        self._macros: dict[str, dict[str, frozenset[str]]] = {}
        self._reached: dict[tuple[Binding, Extension], list[NativeFunction]] = {}
        self._registered: dict[str, set[str]] = defaultdict(set)
        for file in repository.native.values():
            for function in file.functions:
                self._functions[function.name].append(function)
                self._methods[function.scope.rpartition("::")[2]].append(function)
            for name, target in file.registrations:
                self._registered[name].add(target)
            for name, types in file.members:
                self._members[name] |= types
            for name, before, behind in file.pastes:
                self._pastes[name].add((before, behind))
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
        for node in _top_level(module.body):
            if isinstance(node, ast.FunctionDef):
                yield from self._uses_in(node, node, path, "")
            else:
                for item in node.body:
                    method = item.name if isinstance(item, ast.FunctionDef) else ""
                    yield from self._uses_in(item, node, path, method)

    def _uses_in(self, node: ast.AST, wrapper: Definition, path: str, method: str) -> Iterator[Use]:
        pending = [node]
        while pending:
            item = pending.pop()
            chain = chain_of(item) if isinstance(item, (ast.Attribute, ast.Call, ast.Name)) else []
            while chain and isinstance(item, (ast.Attribute, ast.Call)):
                if isinstance(item, ast.Call):
                    pending += [*item.args, *item.keywords]
                item = item.func if isinstance(item, ast.Call) else item.value
            if chain and (named := self._named(path, chain)):
                alias, name = named
                yield Use(wrapper, path, alias.target.partition(":")[0], name, alias.extension, method)
            elif not chain:
                pending += ast.iter_child_nodes(item)

    def _named(self, path: str, chain: list[str]) -> tuple[Alias, str] | None:
        """The extension and the binding that an expression means."""
        meant = self.repository.names.meaning(path, chain)
        if meant is None:
            return None
        alias, rest = meant
        single = alias.target.partition(":")[2]
        name = single or self.bound_name(".".join(word.removesuffix("()") for word in rest))
        return (alias, name) if name else None

    def bound_name(self, text: str) -> str:
        """The longest beginning of a dotted name that is bound ("mesh.hash" of "mesh.hash.default"), else its head."""
        words = text.split(".")
        longest = (".".join(words[:length]) for length in range(len(words), 0, -1))
        return next((name for name in longest if name in self._bound), words[0])

    def link(self, use: Use) -> Link | None:
        """The kernels behind a use, None if there are none or the extension does not bind that name."""
        reached = []
        for binding, extension in self.bindings_of(use):
            functions = self.reach(binding, extension)
            if any(item.is_kernel for item in functions):
                reached.append((folder_distance(use.path, binding.path), binding.path, binding, extension, functions))
        if not reached:
            return None
        _, _, binding, extension, functions = min(reached, key=lambda item: (item[0], item[1], item[2].line))
        kernels = [item for item in functions if item.is_kernel]
        pair = _pair(use, binding, extension, self._host(binding, extension), kernels)
        return Link(use, pair, binding, extension, tuple(functions))

    def bindings_of(self, use: Use) -> list[tuple[Binding, Extension]]:
        """The bindings that a use can mean, each with the extension that it is part of."""
        return [
            (binding, extension)
            for binding in self.repository.bindings
            if binding.name == use.name
            for extension in self._extensions_of(binding, use)
        ]

    def is_own(self, use: Use) -> bool:
        """Whether a use names an extension or an operator library of this repository."""
        names = {item.name.rpartition(".")[2] for item in self.repository.extensions}
        libraries = {binding.library for binding in self.repository.bindings}
        last = use.target.rpartition(".")[2]
        return use.extension is not None or use.target in libraries or last in names or last in libraries

    def reaches_kernel(self, binding: Binding) -> bool:
        """Whether a binding that no Python uses would reach a kernel."""
        whole = Extension("", "", frozenset())
        built = [item for item in self.repository.extensions if binding.path in self.repository.files_of(item)]
        return any(item.is_kernel for item in self.reach(binding, (built or [whole])[0]))

    def _extensions_of(self, binding: Binding, use: Use) -> list[Extension]:
        """The extensions through which this use can refer to this binding."""
        last = use.target.rpartition(".")[2]
        named = [item for item in self.repository.extensions if item.name.rpartition(".")[2] == last]
        if use.target.startswith(OPERATORS):
            if binding.library != use.target and not (named and binding.library == f"{OPERATORS}{EXTENSION}"):
                return []
            built = [item for item in self.repository.extensions if binding.path in self.repository.files_of(item)]
            return (built or [Extension(use.target, "", frozenset())])[:1]
        if use.extension is not None:
            found = [use.extension]
        else:
            found = [item for item in named if f".{use.target}".endswith(f".{item.name}")] or named
            if not found and binding.library == last:
                found = [Extension(last, binding.path.rpartition("/")[0], frozenset())]
            elif not found and binding in self.repository.unclaimed:
                found = [Extension(last, "", frozenset())]
        return [item for item in found if self._is_bound_in(item, binding)]

    def _is_bound_in(self, extension: Extension, binding: Binding) -> bool:
        if extension.inline:
            return binding.path == inline_path(extension)
        named = binding.library in (EXTENSION, extension.name.rpartition(".")[2], extension.name)
        return named and binding.path in self.repository.files_of(extension)

    def _host(self, binding: Binding, extension: Extension) -> NativeFunction:
        near = self._near(binding.target, binding.path, "", extension)
        lambda_ = NativeFunction(binding.target, binding.path, binding.line, binding.line, False, binding.calls)
        return near[0] if near else lambda_

    def reach(self, binding: Binding, extension: Extension) -> list[NativeFunction]:
        """The functions that a binding reaches by calls inside its extension, kernels among them, sorted by place."""
        if (binding, extension) not in self._reached:
            front = [
                item
                for name in [binding.target, *sorted(binding.calls)]
                for item in self._near(name, binding.path, "", extension)
            ]
            found: dict[tuple[str, int], NativeFunction] = {}
            for _ in range(MAX_DEPTH):
                front = [item for item in front if (item.path, item.first) not in found]
                found |= {(item.path, item.first): item for item in front}
                front = [more for item in front if not item.is_kernel for more in self._onward(item, extension)]
            self._reached[binding, extension] = [found[key] for key in sorted(found)]
        return self._reached[binding, extension]

    def _onward(self, function: NativeFunction, extension: Extension) -> list[NativeFunction]:
        """The functions that a function calls, and the kernels that it launches, overloads resolved."""
        found, launched = [], set()
        for name, arguments in sorted(function.launches):
            known = [item for item in self._near(name, function.path, function.scope, extension) if item.is_kernel]
            found += [item for item in known if item.parameters == arguments] or known
            launched |= {name} if known else set()
        expanded = self._in_macros(function)
        mentions = function.mentions | expanded
        called = function.calls | {name for name in mentions & self._kernel_names if len(name) > MIN_NAME}
        called |= {item.name for item in self.repository.native[function.path].functions if item.name in expanded}
        called |= {target for call in function.calls for target in self._registered.get(call, ())}
        called |= {
            f"{before}{word}{behind}"
            for macro in function.mentions & self._pastes.keys()
            for before, behind in self._pastes[macro]
            for word in function.mentions
        } & self._functions.keys()
        for call in sorted(called - launched):
            found += self._near(call, function.path, function.scope, extension)
        return found + self._called_on_objects(function, extension)

    def _in_macros(self, function: NativeFunction) -> set[str]:
        """The words in the macros that a function uses, and in the macros that these use."""
        if function.path not in self._macros:
            seen = [function.path, *sorted(self.repository.visible_from(function.path))]
            files = [self.repository.native[path] for path in seen if path in self.repository.native]
            self._macros[function.path] = {name: words for file in reversed(files) for name, words in file.macros}
        known, front, found = self._macros[function.path], set(function.mentions), set[str]()
        for _ in range(MAX_MACROS):
            front = {word for name in front & known.keys() for word in known[name]} - found
            found |= front
        return found

    def _called_on_objects(self, function: NativeFunction, extension: Extension) -> list[NativeFunction]:
        """Methods that a function calls, and `operator()`, of its class, those that it names, and their members."""
        classes = function.mentions | {call.rpartition("::")[2] for call in function.calls}
        classes |= {function.scope.rpartition("::")[2]}
        classes |= {kind for name in classes & self._members.keys() for kind in self._members[name]}
        inside = self.repository.visible_from(function.path) | self.repository.files_of(extension) | {function.path}
        return [
            method
            for name in sorted((classes & self._methods.keys()) - {""})
            for method in self._methods[name]
            if method.path in inside
            if method.name in function.methods
            or method.name.startswith("operator()")
            or (method.name == "forward" and f"{name}::apply" in function.calls)
        ]

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


def _top_level(body: Sequence[ast.stmt]) -> Iterator[Definition]:
    """The functions and classes of a module, also those under a condition."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node
        elif isinstance(node, (ast.If, ast.Try)):
            handlers = [statement for item in getattr(node, "handlers", ()) for statement in item.body]
            yield from _top_level([*node.body, *handlers, *node.orelse])


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
