"""A repository as kernel mining sees it: its extensions, its native files, and its Python files."""

import ast
import re
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath

from musadata.mining.kernels.extension_names import OPERATORS, Alias, ExtensionNames
from musadata.mining.kernels.extensions import Extension, device_macros, find_extensions
from musadata.mining.kernels.native_bindings import EXTENSION, Binding
from musadata.mining.kernels.native_parsing import SUFFIXES, NativeFile, kernel_marks, parse_native
from musadata.sources.protocol import Tree, UnreadableFile
from musadata.sources.trees import decode_source

MAX_NAMING = 500  # Python files; of a larger repository only those are read that hold the name of an extension
MAX_PARSED = 64  # Python files whose trees are held at once
MAX_NATIVE_BYTES = 1 << 26  # of one repository; a larger one is a compiler or contains other libraries
DEVICE_SUFFIXES = (".cu", ".cuh", ".mu", ".muh")
BUILDS = re.compile(
    r"Extension\b|extension\s*\(|\bload(_inline)?\s*\(|\bsources\b"
)  # in every file that builds an extension
IMPORTED = re.compile(
    r"^[ \t]*(?:from +([\w.]+) +import +(?:\(([\w,\s]+)\)|([\w, ]+))|import +([\w.]+)(?: +as +(\w+))?)", re.MULTILINE
)
UNDEFINED = re.compile(r"-U(__CUDA_NO_\w+__)")
VENDORED = ("third_party/", "cutlass/", "composable_kernel/", "third-party/", "externals/")
Definition = ast.FunctionDef | ast.ClassDef


class Repository:
    """The native side of a repository, indexed when it is opened. Python files are parsed when they are asked for."""

    def __init__(self, tree: Tree):
        self._tree = tree
        self._paths = [path for path in tree.paths() if not any(part in path for part in VENDORED)]
        self._files = frozenset(self._paths)
        self.python_paths = [path for path in self._paths if path.endswith(".py")]
        self._parsed: OrderedDict[str, ast.Module | None] = OrderedDict()
        self.extensions: list[Extension] = []
        self.macros: set[str] = set()  # that builds define for device code
        self.undefined: set[str] = set()  # of those that PyTorch defines for device code
        self._loaded: dict[tuple[str, str], Extension] = {}  # by file and name
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
            self.macros |= device_macros(text)
            self.undefined |= set(UNDEFINED.findall(text))
            for variable, found in find_extensions(path, module, self._files):
                extension = self._with_code(found)
                self.extensions.append(extension)
                if variable:
                    self._loaded[path, variable] = extension

    def _with_code(self, extension: Extension) -> Extension:
        """An extension of `load_inline` with the code that it reads from files."""
        read = [path for path in sorted(extension.sources) if path.endswith(DEVICE_SUFFIXES)]
        if not extension.functions or extension.inline or not read:
            return extension
        return replace(extension, inline="\n".join(self._tree.read(path).decode("utf-8", "replace") for path in read))

    def _parse_native(self) -> Iterator[NativeFile]:
        """Native files and code in Python strings; only the strings if no file is device code."""
        if any(path.endswith(DEVICE_SUFFIXES) for path in self._paths):
            marks = frozenset(mark for _, data in self._native_files() for mark in kernel_marks(data))
            for path, data in self._native_files():
                yield parse_native(path, data, marks)
        for extension in self.extensions:
            if extension.inline:
                yield from _inline_files(extension)

    def _native_files(self) -> Iterator[tuple[str, bytes]]:
        read = 0
        for path in self._paths:
            if path.endswith(SUFFIXES) and read <= MAX_NATIVE_BYTES:
                with suppress(UnreadableFile):
                    data = self._tree.read(path)
                    read += len(data)
                    yield path, data

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
    def names(self) -> ExtensionNames:
        """What names in Python files mean."""
        importable = {extension.name.rpartition(".")[2] for extension in self.extensions}
        importable |= {item.library for item in self.bindings if not item.library.startswith(OPERATORS)} - {EXTENSION}
        importable |= self._unnamed()
        paths = self.python_paths
        if len(paths) > MAX_NAMING:
            words = importable | {name.removesuffix("()") for _, name in self._loaded if name}
            told = re.compile(
                "|".join([r"\b(?:" + "|".join(map(re.escape, sorted(words))) + r")\b"] if words else ["$^"])
            )
            paths = [path for path in paths if told.search(self.text(path))]
        loaded = self._loaded | {("", item.name): item for item in self.extensions if "." in item.name}
        return ExtensionNames(self.module, frozenset(paths), frozenset(importable), loaded)

    @cached_property
    def unclaimed(self) -> frozenset[Binding]:
        """Bindings that no extension with a known name holds: build scripts may compute the name."""
        claimed = frozenset(path for item in self.extensions for path in self.files_of(item))
        return frozenset(item for item in self.bindings if item.library == EXTENSION and item.path not in claimed)

    def _unnamed(self) -> set[str]:
        """The modules of no file from which only names are used that unclaimed code binds."""
        bound, found = {item.name for item in self.unclaimed}, set[str]()
        for path in self.python_paths if bound else ():
            text = self.text(path)
            for source, listed, names, module, alias in IMPORTED.findall(text):
                own = alias or module.rpartition(".")[2]
                used = set(re.findall(r"\w+", listed or names) or re.findall(rf"\b{re.escape(own)}\.(\w+)", text))
                found |= {(source or module).rpartition(".")[2]} if used and used <= bound else set()
        return found - {PurePosixPath(path).stem for path in self.python_paths}

    def aliases(self, path: str) -> dict[str, Alias]:
        """The names in a file that mean an extension or one of its bindings."""
        known = self.names.of(path)
        lazy = {f"{name}.{inner}": item for name, of in known.items() for inner, item in self._lazy(of.module)}
        return lazy | {name: alias for name, alias in known.items() if not alias.module}

    def _lazy(self, path: str) -> Iterator[tuple[str, Alias]]:
        """The extensions that a module's `__getattr__` loads: no statement binds their names."""
        for name, alias in self.names.of(path).items() if path else ():
            if alias.lazy:
                yield name, alias

    def files_of(self, extension: Extension) -> frozenset[str]:
        """Its sources, or all native files below its folder, and all files that these include."""
        if extension not in self._members:
            prefix = f"{extension.folder}/" if extension.folder else ""
            found = set(extension.sources) or {path for path in self.native if path.startswith(prefix)}
            found = {path for path in found if not is_musa(path)} or found
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


def is_musa(path: str) -> bool:
    """Whether a file is for MUSA by its name: `x.mu`, `musa/x.cu`, `x_musa.cuh`."""
    return path.endswith((".mu", ".muh")) or bool(re.search(r"(?:^|[/_.])(?:musa|moore)(?=[/_.])", path.lower()))


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
