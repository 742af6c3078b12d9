"""Linking Python wrappers to the CUDA kernels that their authors wrote.

Wrapper or `autograd.Function` -> binding -> host function -> `__global__` kernel. A wrapper is linked through the
extension that it imports, never by the name of a function alone: every extension has a `forward`.
"""

import ast
import re
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

from musadata.mining.kernels.extensions import Extension, find_extensions
from musadata.mining.kernels.native_parsing import SUFFIXES, Binding, NativeFile, NativeFunction, parse_native
from musadata.mining.slicing.definition_index import module_name
from musadata.mining.slicing.parsing import absolute_module
from musadata.sources.protocol import Tree, UnreadableFile
from musadata.sources.trees import decode_source

MAX_DEPTH = 8  # calls from a bound function to a kernel
MAX_PARSED = 64  # Python files whose trees are held at once
MAX_NATIVE_BYTES = 1 << 26  # of one repository; what is larger is a compiler or vendors its libraries
DEVICE_SUFFIXES = (".cu", ".cuh")
BUILDS = re.compile(r"Extension\b|\bload(_inline)?\s*\(|\bsources\b")  # in every file that builds an extension
VENDORED = ("third_party/", "cutlass/", "composable_kernel/", "third-party/", "externals/")


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
class Alias:
    """What a name stands for in one file: an extension's dotted name ("pkg._C"), or "pkg._C:forward" for one binding.

    `extension` is set where this very file builds it.
    """

    target: str
    extension: Extension | None = None


@dataclass(frozen=True)
class Use:
    """A wrapper that calls something of an extension: "pkg._C", "torch.ops.ns", or the variable it was loaded into.

    `method`: the method of the wrapper in which it does, "" for a function.
    """

    wrapper: ast.FunctionDef | ast.ClassDef
    path: str
    target: str
    name: str
    extension: Extension | None = None
    method: str = ""


@dataclass(frozen=True)
class Link:
    """A use, and all native code that it leads to. `reached`: every function on the way, kernels included."""

    use: Use
    pair: Pair
    binding: Binding
    extension: Extension
    reached: tuple[NativeFunction, ...]


def find_pairs(tree: Tree) -> list[Pair]:
    """Every link from a wrapper to at least one kernel, sorted by wrapper."""
    repository = Repository(tree)
    found = [link.pair for path in repository.python_paths for link in repository.links(path)]
    return sorted(set(found), key=lambda pair: (*_by_line(pair.wrapper_place), pair.extension, pair.binding))


def _by_line(place: str) -> tuple[str, int]:
    path, _, lines = place.rpartition(":")
    return path, int(lines.partition("-")[0])


class Repository:
    """The native side of a repository, indexed, and its Python side, parsed file by file as it is asked about."""

    def __init__(self, tree: Tree):
        self._tree = tree
        self._paths = [path for path in tree.paths() if not any(part in path for part in VENDORED)]
        self._files = frozenset(self._paths)
        self.python_paths = [path for path in self._paths if path.endswith(".py")]
        self._parsed: OrderedDict[str, ast.Module | None] = OrderedDict()
        self.extensions: list[Extension] = []
        self._loaded: dict[tuple[str, str], Extension] = {}
        for path in self.python_paths:
            self._find_extensions(path)
        self.native = {file.path: file for file in self._parse_native()}
        self._named: dict[str, list[str]] = defaultdict(list)
        for path in sorted(self.native):
            self._named[path.rpartition("/")[2]].append(path)
        self._members: dict[Extension, frozenset[str]] = {}
        self._visible: dict[str, frozenset[str]] = {}
        self.bindings = [binding for file in self.native.values() for binding in file.bindings]
        self.functions: dict[str, list[NativeFunction]] = defaultdict(list)
        self._registered: dict[str, set[str]] = defaultdict(set)
        for file in self.native.values():
            for function in file.functions:
                self.functions[function.name].append(function)
            for name, target in file.registrations:
                self._registered[name].add(target)
        self._kernel_names = frozenset(
            item.name for file in self.native.values() for item in file.functions if item.is_kernel
        )

    def _find_extensions(self, path: str) -> None:
        text = self.text(path)
        module = self.module(path) if text and BUILDS.search(text) else None
        if module is not None:
            for variable, extension in find_extensions(path, module, self._files):
                self.extensions.append(extension)
                if variable:
                    self._loaded[path, variable] = extension

    def _parse_native(self) -> Iterator[NativeFile]:
        """Native files, and what stands in Python strings; only the strings where no file is device code."""
        if any(path.endswith(DEVICE_SUFFIXES) for path in self._paths):
            read = 0
            for path, data in _native_files(self._tree, self._paths):
                read += len(data)
                if read > MAX_NATIVE_BYTES:
                    break
                yield parse_native(path, data)
        for extension in self.extensions:
            if extension.inline:
                yield from _inline_files(extension)

    def text(self, path: str) -> str:
        """A Python file's text, "" if it cannot be read."""
        try:
            return decode_source(self._tree.read(path))
        except UnreadableFile:
            return ""

    def native_text(self, path: str) -> str:
        """The text of a native file, or of the code in a Python string that stands for one."""
        for item in self.extensions if ">." in path else ():
            if path in (_inline_path(item), _inline_path(item, "cpp")):
                return item.inline if path.endswith(".cu") else item.inline_host
        return self._tree.read(path).decode("utf-8", "replace")

    def module(self, path: str) -> ast.Module | None:
        """A Python file's tree, None if it cannot be parsed. A few are kept."""
        if path not in self._parsed:
            try:
                self._parsed[path] = ast.parse(self.text(path))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._parsed[path] = None
            while len(self._parsed) > MAX_PARSED:
                self._parsed.popitem(last=False)
        return self._parsed[path]

    @cached_property
    def _importable(self) -> frozenset[str]:
        names = {extension.name.rpartition(".")[2] for extension in self.extensions}
        return frozenset(names | {binding.library for binding in self.bindings})

    def aliases(self, path: str) -> dict[str, Alias]:
        """The names under which a file knows extensions, or single bindings of them."""
        module = self.module(path)
        return dict(self._aliases(path, module, self._importable)) if module is not None else {}

    def links(self, path: str) -> list[Link]:
        """The links of a file's top-level classes and functions, in its order."""
        found = [link for use in self.uses(path) if (link := self.link(use)) is not None]
        return list({(link.pair, link.use.method): link for link in found}.values())

    def uses(self, path: str) -> Iterator[Use]:
        """Every attribute of an extension that a top-level class or function of a file refers to."""
        module = self.module(path)
        if module is None or not self.bindings:
            return
        aliases = self.aliases(path)
        for node in module.body:
            if isinstance(node, ast.FunctionDef):
                yield from _uses_in(node, node, path, aliases, "")
            elif isinstance(node, ast.ClassDef):
                for item in node.body:
                    method = item.name if isinstance(item, ast.FunctionDef) else ""
                    yield from _uses_in(item, node, path, aliases, method)

    def _aliases(self, path: str, module: ast.Module, names: frozenset[str]) -> Iterator[tuple[str, Alias]]:
        package = path.endswith("__init__.py")
        for node in ast.walk(module):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.rpartition(".")[2] in names:
                        yield alias.asname or alias.name, Alias(alias.name)
            elif isinstance(node, ast.ImportFrom):
                source = absolute_module(module_name(path), package, node.module, node.level)
                for alias in node.names:
                    if alias.name in names:
                        yield alias.asname or alias.name, Alias(f"{source}.{alias.name}")
                    elif source.rpartition(".")[2] in names:
                        yield alias.asname or alias.name, Alias(f"{source}:{alias.name}")
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                variable = node.targets[0].id
                if (path, variable) in self._loaded:
                    yield variable, Alias(variable, self._loaded[path, variable])
                elif isinstance(node.value, ast.Call):
                    texts = [item.value for item in node.value.args if isinstance(item, ast.Constant)]
                    yield from ((variable, Alias(text)) for text in texts if isinstance(text, str) and text in names)

    def link(self, use: Use) -> Link | None:
        """The kernels behind a use, None if there are none or the extension does not bind that name."""
        candidates = [
            (binding, extension)
            for binding in self.bindings
            if binding.name == use.name
            for extension in self._extensions_of(binding, use)
        ]
        if not candidates:
            return None
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
        """The extensions by which this use can mean this binding."""
        if use.target.startswith("torch.ops."):
            built = [item for item in self.extensions if binding.path in self.files_of(item)]
            any_file = Extension(use.target, "", frozenset())
            return (built or [any_file])[:1] if binding.library == use.target else []
        found = [use.extension] if use.extension is not None else []
        if not found:
            last = use.target.rpartition(".")[2]
            found = [item for item in self.extensions if item.name.rpartition(".")[2] == last]
            if not found and binding.library == last:
                found = [Extension(last, binding.path.rpartition("/")[0], frozenset())]
        return [item for item in found if self._is_bound_in(item, binding)]

    def _is_bound_in(self, extension: Extension, binding: Binding) -> bool:
        if extension.inline:
            return binding.path == _inline_path(extension)
        named = binding.library in ("TORCH_EXTENSION_NAME", extension.name.rpartition(".")[2], extension.name)
        return named and binding.path in self.files_of(extension)

    def files_of(self, extension: Extension) -> frozenset[str]:
        """Its sources, or all native files below its folder, and whatever these include."""
        if extension not in self._members:
            prefix = f"{extension.folder}/" if extension.folder else ""
            found = set(extension.sources) or {path for path in self.native if path.startswith(prefix)}
            if extension.inline:
                found = {_inline_path(extension), _inline_path(extension, "cpp")}
            self._members[extension] = frozenset(found).union(*(self.visible_from(path) for path in sorted(found)))
        return self._members[extension]

    def visible_from(self, path: str) -> frozenset[str]:
        """What a file includes, directly or not: all that its compiler sees besides itself."""
        if path not in self._visible:
            found: set[str] = set()
            front = [path]
            while front:
                named = [(item, name) for item in front if item in self.native for name in self.native[item].includes]
                included = {near for item, name in named for near in self.included(item, name)}
                front = sorted(included - found)
                found |= included
            self._visible[path] = frozenset(found)
        return self._visible[path]

    def included(self, path: str, name: str) -> list[str]:
        """The file that an `#include` means: the nearest one whose path ends like that."""
        known = [item for item in self._named.get(name.rpartition("/")[2], ()) if f"/{item}".endswith(f"/{name}")]
        return sorted(known, key=lambda item: (folder_distance(path, item), item))[:1]

    def _host(self, binding: Binding, extension: Extension) -> NativeFunction:
        near = self._near(binding.target, binding.path, "", extension)
        lambda_ = NativeFunction(binding.target, binding.path, binding.line, binding.line, False, binding.calls)
        return near[0] if near else lambda_

    def _reach(self, binding: Binding, extension: Extension) -> list[NativeFunction]:
        """What the bound function reaches by calls inside its extension, nearest definition first, by place."""
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
        """What a function calls; kernels that it launches are entered into `found` at once, overloads told apart."""
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
        """What a name can mean in `scope` of `path`: definitions of this file, else the nearest in the extension."""
        qualifier, _, last = name.rpartition("::")
        known = _in_scope(self.functions.get(last, []), qualifier, scope)
        here = [item for item in known if item.path == path]
        if here:
            return here
        visible, files = self.visible_from(path), self.files_of(extension)
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
    """What a qualified name can mean: definitions of its scope, or of the innermost scope around the caller."""
    if qualifier:
        exact = [item for item in known if f"::{item.scope}".endswith(f"::{qualifier}")]
        return exact or known
    around = [item for item in known if f"{scope}::".startswith(f"{item.scope}::") or not item.scope]
    innermost = max((len(item.scope) for item in around), default=0)
    return [item for item in around if len(item.scope) == innermost] or known


def _inline_path(extension: Extension, suffix: str = "cu") -> str:
    return f"{extension.folder}/<{extension.name}>.{suffix}"


def _inline_files(extension: Extension) -> Iterator[NativeFile]:
    file = parse_native(_inline_path(extension), extension.inline.encode())
    bound = tuple(Binding(name, name, extension.name, file.path, 1) for name in extension.functions)
    yield replace(file, bindings=(*file.bindings, *bound))
    yield parse_native(_inline_path(extension, "cpp"), extension.inline_host.encode())


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


def wrapper_kind(node: ast.FunctionDef | ast.ClassDef) -> str:
    """What a wrapper is, by its bases: "function", "autograd", "module" or "class"."""
    if isinstance(node, ast.FunctionDef):
        return "function"
    bases = " ".join(ast.unparse(base) for base in node.bases)
    return "autograd" if "Function" in bases else "module" if "Module" in bases else "class"


def folder_distance(first: str, second: str) -> int:
    """How many folders lie between two files."""
    a, b = PurePosixPath(first).parent.parts, PurePosixPath(second).parent.parts
    common = next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return len(a) + len(b) - 2 * common


def _native_files(tree: Tree, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        if path.endswith(SUFFIXES):
            try:
                yield path, tree.read(path)
            except UnreadableFile:
                continue
