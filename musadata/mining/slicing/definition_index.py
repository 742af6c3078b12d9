"""Resolving names to definitions across the files of one package or repository."""

import ast
import re
import sys
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import PurePosixPath

from musadata.mining.reading.dotted_names import dotted_name
from musadata.mining.reading.parsing import AVAILABLE, Definition, Import, ParsedModule, parse_module
from musadata.mining.slicing.stand_ins import lighter_text, stand_ins
from musadata.sources.dependencies import PLACE, Dependencies
from musadata.sources.protocol import Packages, Tree, UnreadableFile
from musadata.sources.trees import decode_source

MAX_CACHED = 3_000_000  # characters of source whose syntax trees are cached; bounds memory for any number of files
MAX_ADDED = 2000  # small modules that are in no file, and so cannot be read again
UNPARSABLE = (UnreadableFile, SyntaxError, ValueError, RecursionError, MemoryError)  # what a file may raise
NO_DEPENDENCIES = Dependencies(())
MAX_OTHERS = 4  # modules of one name that are looked through for what another one lacks
DEFINED = re.compile(rb"^(?:class|def)[ \t]+(\w+)", re.MULTILINE)
DOT = "\N{ONE DOT LEADER}"  # stands for a dot in the name of a folder or file
MAX_HOPS = 24  # re-exports followed for one name; cyclic imports end here


@dataclass(frozen=True)
class External:
    """A module outside the tree, or a member of one, which must be imported."""

    module: str
    name: str = ""

    @cached_property
    def dotted(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module


@dataclass(frozen=True)
class InternalModule:
    """A module of the tree itself, as an object."""

    name: str


Meaning = Definition | External | InternalModule


class PackageIndex:
    """Parses files on demand and resolves names through imports, re-exports and star imports."""

    def __init__(self, tree: Tree, importable: frozenset[str] = frozenset(), dependencies: Packages = NO_DEPENDENCIES):
        """Args:
        importable: packages of the tree that references may import: only their private parts are copied.
        dependencies: packages outside the tree whose code may be copied as well.
        """
        self.tree = tree
        self.importable = importable
        self._dependencies = dependencies
        self._paths = {path for path in tree.paths() if path.endswith(".py")}
        self._stand_ins = stand_ins([*self._paths, *dependencies.names])
        self._paths |= self._stand_ins.keys() | set(dependencies.paths())
        self._cache: OrderedDict[str, ParsedModule | None] = OrderedDict()
        self._cached = 0
        self._added: OrderedDict[str, ParsedModule] = OrderedDict()
        self._by_name: dict[str, str] = {}
        for path in sorted(self._paths, key=_packages_last):
            hidden = self._by_name.get(module_name(path))
            self._by_name |= {module_name(path): path} | ({_hidden(hidden): hidden} if hidden else {})
        self._folders = {module_name(str(folder)) for path in self._paths for folder in PurePosixPath(path).parents}

    def module(self, name: str) -> ParsedModule | None:
        """The module with this dotted name (its place in the tree), or None."""
        if name in self._added:
            return self._added[name]
        if name in self._cache:
            self._cache.move_to_end(name)
            return self._cache[name]
        path = self._by_name.get(name)
        if path is not None:
            with suppress(*UNPARSABLE):
                return self.parse(path)
        self._remember(name, None)
        return None

    def parse(self, path: str) -> ParsedModule:
        """Parse one file of the tree.

        Raises:
            UnreadableFile: it cannot be read or decoded.
            SyntaxError, ValueError, RecursionError, MemoryError: it cannot be parsed.
        """
        name = self.name_of(path)
        cached = self._cache.get(name)
        if cached is None:
            text = self._stand_ins.get(path)
            cached = self._parse_read(name, path) if text is None else parse_module(name, path, text)
            self._remember(name, cached)
        return cached

    def name_of(self, path: str) -> str:
        """The dotted name of a file; a module that a package of the same name hides has one that nothing imports."""
        name = module_name(path)
        return name if self._by_name.get(name, path) == path else _hidden(path)

    def _parse_read(self, name: str, path: str) -> ParsedModule:
        lighter = lighter_text(path)
        parsed = parse_module(name, path, f"{self._read(path)}\n\n{lighter}" if lighter else self._read(path))
        if lighter:
            replaced = parse_module(name, path, lighter).bindings.keys()
            parsed.changes = [item for item in parsed.changes if not item[1] & replaced]
        return parsed

    def _read(self, path: str) -> str:
        holder = self._dependencies if self._dependencies.holds(path) else self.tree
        return decode_source(holder.read(path))

    def text(self, path: str) -> str:
        """The text of any file of the tree, "" if it cannot be read."""
        try:
            return decode_source(self.tree.read(path))
        except UnreadableFile:
            return ""

    def add(self, module: ParsedModule) -> None:
        """Let other modules find one that is not in the tree, for a while."""
        self._added[module.name] = module
        while len(self._added) > MAX_ADDED:
            self._added.popitem(last=False)

    def _remember(self, name: str, parsed: ParsedModule | None) -> None:
        """`name` is not in the cache, or as a module that cannot be parsed."""
        self._cache[name] = parsed
        self._cached += len(parsed.text) if parsed else 100
        while self._cached > MAX_CACHED and len(self._cache) > 8:
            _, dropped = self._cache.popitem(last=False)
            self._cached -= len(dropped.text) if dropped else 100

    def has_module(self, name: str) -> bool:
        return name in self._added or name in self._by_name or name in self._folders

    def lacks(self, name: str) -> bool:
        """Whether a dotted name is of a package of the tree that has no such definition, as far as can be read."""
        parts = name.split(".")
        modules = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
        unread = any(module in self._by_name and self.module(module) is None for module in modules)
        return self.has_module(parts[0]) and not unread

    def is_stand_in(self, name: str) -> bool:
        """Whether a module belongs to a package of which only some functions are at hand."""
        top = name.split(".")[0]
        return any(path.startswith((f"{top}/", f"{top}.")) for path in self._stand_ins)

    def is_public(self, name: str) -> bool:
        """Whether a module of the tree is imported rather than copied."""
        parts = name.split(".")
        return parts[0] in self.importable and not any(part.startswith("_") for part in parts)

    def locate(self, module: str, importer: str) -> str | None:
        """The dotted name of an imported module: beside the importer, in a folder above it, or in a dependency."""
        top = module.split(".")[0]
        if top in AVAILABLE and top != importer.split(".")[0]:
            return None
        installed = f"{PLACE}.{module}" if self.has_module(f"{PLACE}.{module}") else None
        if importer.startswith(f"{PLACE}."):
            is_beside = top == PLACE or self.is_stand_in(module)
            return installed or (module if is_beside and self.has_module(module) else None)
        if self.has_module(module):
            return module
        parts = importer.split(".")[:-1]
        for depth in range(len(parts), 0, -1):
            candidate = ".".join([*parts[:depth], module])
            if self.has_module(candidate):
                return candidate
        roots = (f"{root}.{module}" for root in ("src", "lib", "python") if self.has_module(f"{root}.{module}"))
        return next(roots, installed)

    def resolve(self, module: ParsedModule, name: str, hops: int = 0) -> Meaning | None:
        """The meaning of a top-level name of `module`; None if it is not bound there."""
        if hops > MAX_HOPS:
            return None
        binding = module.bindings.get(name)
        if isinstance(binding, Definition):
            return binding
        if isinstance(binding, Import):
            return self._imported(binding, module.name, hops)
        for star in module.stars:
            found = self._from_star(star, module.name, name, hops)
            if found is not None:
                return found
        absent = module.absent.get(name)
        return self._imported(absent, module.name, hops) if absent is not None else None

    def member(self, module: str, name: str, hops: int = 0) -> Meaning | None:
        """The meaning of attribute `name` of a module of the tree: a binding, or a submodule."""
        parsed = self.module(module)
        found = self.resolve(parsed, name, hops + 1) if parsed is not None else None
        if found is None and self.has_module(f"{module}.{name}"):
            return InternalModule(f"{module}.{name}")
        return found

    def _imported(self, binding: Import, importer: str, hops: int) -> Meaning | None:
        located = self.locate(binding.module, importer)
        if not binding.name:
            return External(binding.module) if located is None else InternalModule(located)
        for place in [*([] if located is None else [located]), *self._others(binding.module, importer)]:
            found = self.member(place, binding.name, hops)
            if found is not None:
                return found
        moved = self._moved(binding, importer)
        return moved or External(binding.module.removeprefix(f"{PLACE}."), binding.name)

    def _moved(self, binding: Import, importer: str) -> Meaning | None:
        """The one definition, nearest to the importer, of a name that a module of the tree has no more."""
        is_here = not importer.startswith(f"{PLACE}.") and self.has_module(binding.module.split(".")[0])
        return self.nearest(binding.name, importer) if is_here and not binding.name.startswith("_") else None

    def nearest(self, name: str, importer: str) -> Definition | None:
        """The one class or function of this name in the tree that is nearest to a module."""
        places = sorted(self._by_definition.get(name, ()), key=lambda place: _distance(importer, place))
        distances = [_distance(importer, place)[0] for place in places[:2]]
        is_one = len(distances) == 1 or (len(distances) > 1 and distances[0] < distances[1])
        found = self.module(places[0]) if is_one else None
        return found.bindings.get(name) if found is not None else None  # type: ignore[return-value]

    @cached_property
    def class_names(self) -> set[str]:
        """Names in the manner of classes that modules outside tests define."""
        places = self._by_definition.items()
        return {name for name, held in places if name[:1].isupper() and not all("test" in one for one in held)}

    @cached_property
    def _by_definition(self) -> dict[str, list[str]]:
        """Names of classes and functions -> the modules of the tree that define them at their top."""
        found: dict[str, list[str]] = {}
        for path in sorted(path for path in self.tree.paths() if path.endswith(".py")):
            try:
                names = DEFINED.findall(self.tree.read(path))
            except UnreadableFile:
                continue
            for name in dict.fromkeys(names):
                found.setdefault(name.decode(errors="replace"), []).append(self.name_of(path))
        return found

    def _others(self, module: str, importer: str) -> list[str]:
        """Modules that end with this name, those near the importer first: a script may extend its path.

        In a dependency these are where a module may be now: `transformers.models.bert.modeling_bert`.
        """
        top, last = module.split(".")[0], module.rpartition(".")[2]
        if top in AVAILABLE or importer.startswith(f"{PLACE}."):
            return []
        named = self._by_end.get(last, ())
        found = [name for name in named if f".{name}".endswith(f".{module}") and not name.startswith(f"{PLACE}.")]
        moved = [name for name in named if name.startswith(f"{PLACE}.{top}.")]
        return [*sorted(found, key=lambda name: _distance(importer, name)), *moved][:MAX_OTHERS]

    @cached_property
    def _by_end(self) -> dict[str, list[str]]:
        """The last part of a module's name -> the modules that have it."""
        found: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            name = self.name_of(path)
            found.setdefault(name.rpartition(".")[2], []).append(name)
        return found

    def _from_star(self, star: str, importer: str, name: str, hops: int) -> Meaning | None:
        located = self.locate(star, importer)
        if located is None:
            loaded = star in sys.stdlib_module_names and hasattr(sys.modules.get(star), name)
            return External(star, name) if loaded else None
        parsed = self.module(located)
        if parsed is None or (name.startswith("_") and name not in _exported(parsed)):
            return None
        return self.resolve(parsed, name, hops + 1)


def _packages_last(path: str) -> tuple[bool, str]:
    """Orders files so that a package comes after a module of the same name, in whose place it is found."""
    return path.endswith("/__init__.py"), path


def _hidden(path: str) -> str:
    return f"{module_name(path)}{DOT}py"


def _distance(importer: str, name: str) -> tuple[int, str]:
    """Orders modules by the folders that they share with an importer."""
    pairs = zip(importer.split("."), name.split("."), strict=False)
    return -sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)), name


def _exported(module: ParsedModule) -> frozenset[str]:
    """The names that a module's `__all__` lists: a star import takes those with an underscore as well."""
    stated = module.bindings.get("__all__")
    nodes = ast.walk(stated.node) if isinstance(stated, Definition) else ()
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def module_name(path: str) -> str:
    """ "pkg/layers/__init__.py" -> "pkg.layers". A dot in a folder's name ("demo-1.0") separates no modules."""
    name = path.removesuffix(".py").removesuffix("/__init__")
    return name.replace(".", DOT).replace("/", ".")


def base_names(node: ast.ClassDef) -> list[str]:
    """The dotted names among a class's bases."""
    return [name for name in (dotted_name(base) for base in node.bases) if name]
