"""A repository as kernel mining sees it: its extensions, its native files, and its Python files."""

import ast
import re
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

from musadata.mining.kernels.extensions import Extension, find_extensions
from musadata.mining.kernels.native_parsing import SUFFIXES, Binding, NativeFile, parse_native
from musadata.mining.slicing.definition_index import module_name
from musadata.mining.slicing.parsing import absolute_module
from musadata.sources.protocol import Tree, UnreadableFile
from musadata.sources.trees import decode_source

MAX_PARSED = 64  # Python files whose trees are held at once
MAX_NATIVE_BYTES = 1 << 26  # of one repository; a larger one is a compiler or contains other libraries
DEVICE_SUFFIXES = (".cu", ".cuh")
BUILDS = re.compile(r"Extension\b|\bload(_inline)?\s*\(|\bsources\b")  # in every file that builds an extension
VENDORED = ("third_party/", "cutlass/", "composable_kernel/", "third-party/", "externals/")
Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Alias:
    """What a name means in one file: an extension's dotted name ("pkg._C"), or "pkg._C:forward" for one binding.

    `extension` is set if this file builds the extension.
    """

    target: str
    extension: Extension | None = None


class Repository:
    """The native side of a repository, indexed when it is opened. Python files are parsed when they are asked for."""

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

    def _find_extensions(self, path: str) -> None:
        text = self.text(path)
        module = self.module(path) if text and BUILDS.search(text) else None
        if module is not None:
            for variable, extension in find_extensions(path, module, self._files):
                self.extensions.append(extension)
                if variable:
                    self._loaded[path, variable] = extension

    def _parse_native(self) -> Iterator[NativeFile]:
        """Native files and code in Python strings; only the strings if no file is device code."""
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
        """The text of a native file, or of native code in a Python string."""
        for item in self.extensions if ">." in path else ():
            if path in (inline_path(item), inline_path(item, "cpp")):
                return item.inline if path.endswith(".cu") else item.inline_host
        return self._tree.read(path).decode("utf-8", "replace")

    def module(self, path: str) -> ast.Module | None:
        """A Python file's syntax tree, None if it cannot be parsed. `MAX_PARSED` are cached."""
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
        """The names in a file that mean an extension or one of its bindings."""
        module = self.module(path)
        return dict(self._aliases(path, module, self._importable)) if module is not None else {}

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

    def files_of(self, extension: Extension) -> frozenset[str]:
        """Its sources, or all native files below its folder, and all files that these include."""
        if extension not in self._members:
            prefix = f"{extension.folder}/" if extension.folder else ""
            found = set(extension.sources) or {path for path in self.native if path.startswith(prefix)}
            if extension.inline:
                found = {inline_path(extension), inline_path(extension, "cpp")}
            self._members[extension] = frozenset(found).union(*(self.visible_from(path) for path in sorted(found)))
        return self._members[extension]

    def visible_from(self, path: str) -> frozenset[str]:
        """The files that a file includes, directly or indirectly."""
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
        """The file that an `#include` means: the nearest one whose path ends with the name."""
        known = [item for item in self._named.get(name.rpartition("/")[2], ()) if f"/{item}".endswith(f"/{name}")]
        return sorted(known, key=lambda item: (folder_distance(path, item), item))[:1]


def inline_path(extension: Extension, suffix: str = "cu") -> str:
    return f"{extension.folder}/<{extension.name}>.{suffix}"


def _inline_files(extension: Extension) -> Iterator[NativeFile]:
    file = parse_native(inline_path(extension), extension.inline.encode())
    bound = tuple(Binding(name, name, extension.name, file.path, 1) for name in extension.functions)
    yield replace(file, bindings=(*file.bindings, *bound))
    yield parse_native(inline_path(extension, "cpp"), extension.inline_host.encode())


def wrapper_kind(node: ast.FunctionDef | ast.ClassDef) -> str:
    """The kind of a wrapper, by its bases: "function", "autograd", "module" or "class"."""
    if isinstance(node, ast.FunctionDef):
        return "function"
    bases = " ".join(ast.unparse(base) for base in node.bases)
    return "autograd" if "Function" in bases else "module" if "Module" in bases else "class"


def folder_distance(first: str, second: str) -> int:
    """The number of folders between two files."""
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
