"""The version of the code behind a result: a hash of everything in musadata that its producers import, directly or not.

Files are read, not imported. Counted are syntax trees without comments, docstrings and what `Annotated` says, and data
files (templates, tables, C++) by their bytes, so that an edit changes the version of those results alone that it may
change:

- A module that is reached counts whole, with the modules that it imports, inside functions too, or names in a string
  ("musadata.tasks.examination:examine", for a sandbox), and with them.
- `BY_DEFINITION` names modules that define what many unrelated results are made of, `records` before all. There each
  top-level definition counts on its own, with the definitions that it mentions. Where it is not certain which of them
  are used, all of them count.
- `CHOOSERS` open what the config names: one of several sources, teachers or backends. What they import is not followed;
  the caller names the chosen ones among the producers.
- A module that mentions `__file__` may read the data files below its folder: all of them count.
"""

import ast
import gc
import hashlib
import importlib.metadata
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import musadata
from musadata.storage.version_cache import remember

ROOT = Path(musadata.__file__).parent
CHOOSERS = ("musadata.sources", "musadata.teacher", "musadata.verifier.backend_choice")
BY_DEFINITION = (
    "musadata.records",
    "musadata.columns",
    "musadata.row_enums",
    "musadata.training_rows",
    "musadata.config",
    "musadata.corpus",
    "musadata.verifier",
    *CHOOSERS,
)
_MODULE = re.compile(r"\bmusadata(?:\.\w+)*(?:\.\*)?")
_PROGRAM = re.compile(r"^(\w+)\.py$")  # a file beside the one that names it
_WORD = re.compile(r"[^\W\d]\w*")
_LONGEST_ANNOTATION = 200  # characters of a string that may name definitions
_WITHOUT_EFFECT = {"dataclass", "cache", "contextmanager", "overload"}  # decorators that register nothing anywhere
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@cache
def code_version(producers: tuple[str, ...], distributions: tuple[str, ...] = ()) -> str:
    """Version of the code of some producers ("musadata.tasks.probe", or a package for all of it), in 16 hex digits.

    `distributions` adds the versions of installed packages whose results go into rows ("torch").
    """
    digest = hashlib.sha256(remember(ROOT, producers, hash_closure).encode())
    for name in sorted(distributions):
        digest.update(f"{name}=={importlib.metadata.version(name)}\0".encode())
    return digest.hexdigest()[:16]


def hash_closure(root: Path, producers: Iterable[str]) -> str:
    """Hash of what is reached from `producers` in the copy of musadata that lies in `root`."""
    collecting = gc.isenabled()
    gc.disable()  # it would look through the syntax trees again and again: half of the time
    try:
        found = _Closure(root)
        for producer in producers:
            found.add_producer(producer)
    finally:
        if collecting:
            gc.enable()
    return found.hash()


@dataclass(frozen=True)
class _Statement:
    """A statement on a module's top level.

    Attributes:
        defines: the names that it binds; none if it does something else as well, so that it always counts.
        digest: of its syntax tree without docstrings; of the order of names nothing is said.
        mentions: names that occur in it, in annotations that are strings too.
        imports: dotted names of what it imports or names in strings; "musadata.x.*" for all below.
    """

    defines: frozenset[str]
    digest: bytes
    mentions: frozenset[str]
    imports: tuple[str, ...]


class _Closure:
    """What was reached so far."""

    def __init__(self, root: Path):
        self._root = root
        self._reached: dict[str, set[int]] = {}  # module -> positions of statements
        self._folders: set[Path] = set()  # whose data files count
        self._left: list[str] = []  # dotted names to follow
        self._paths: dict[str, Path | None] = {}
        self._parsed: dict[str, tuple[_Statement, ...]] = {}

    def add_producer(self, name: str) -> None:
        """A module, a definition of one ("module:name"), or a package with all that lies in it."""
        name = name.replace(":", ".")
        if self._find(name) is None:
            raise ValueError(f"musadata has no {name!r}")
        self._left.append(name)
        if (self._path(name) or Path()).name == "__init__.py":
            self._left.append(f"{name}.*")
        while self._left:
            self._add(self._left.pop())

    def hash(self) -> str:
        digest = hashlib.sha256()
        for module in sorted(self._reached):
            statements = self._statements(module)
            digest.update(f"{module}\0".encode())
            for position in sorted(self._reached[module]):
                digest.update(statements[position].digest)
        for path in sorted({path for folder in self._folders for path in _data_files(folder)}):
            digest.update(f"{path.relative_to(self._root).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()

    def _add(self, name: str) -> None:
        """Count what a dotted name stands for, if it is of musadata."""
        package, star, _ = name.partition(".*")
        if star:
            for path in sorted((self._root.joinpath(*package.split(".")[1:])).rglob("*.py")):
                self._left.append(".".join(("musadata", *path.relative_to(self._root).with_suffix("").parts)))
            return
        found = self._find(name.removesuffix(".__init__"))
        if found is None:
            return
        module, definition = found
        parts = module.split(".")
        for count in range(1, len(parts)):  # packages are imported on the way
            self._add_definition(".".join(parts[:count]), None)
        self._add_definition(module, definition)

    def _add_definition(self, module: str, name: str | None) -> None:
        """Count a definition of a module: "" for all, None for what the module's import alone brings about."""
        statements = self._statements(module)
        self._reached.setdefault(module, set())
        positions = list(range(len(statements)))
        if module in BY_DEFINITION and name != "":
            self._add_statements(module, [at for at in positions if not statements[at].defines])
            for wanted in (name, "__getattr__") if name else ():
                if found := [at for at in positions if wanted in statements[at].defines]:
                    positions = found
                    break
            if name is None:
                return
        self._add_statements(module, positions)

    def _add_statements(self, module: str, positions: Iterable[int]) -> None:
        statements, reached = self._statements(module), self._reached[module]
        new = [at for at in positions if at not in reached]
        reached.update(new)
        for one in (statements[at] for at in new):
            if "__file__" in one.mentions:
                self._folders.add((self._path(module) or self._root).parent)
            if len(reached) < len(statements):
                mentioned = [at for at, statement in enumerate(statements) if one.mentions & statement.defines]
                self._add_statements(module, mentioned)
            if module not in CHOOSERS:
                self._left += one.imports

    def _find(self, name: str) -> tuple[str, str] | None:
        """The module of a dotted name, and what of it is meant: "" for all."""
        module, definition = name, ""
        while self._path(module) is None:
            module, _, definition = module.rpartition(".")
            if not module:
                return None
        return module, definition

    def _path(self, module: str) -> Path | None:
        if module not in self._paths:
            first, *rest = module.split(".")
            path = self._root.joinpath(*rest)
            candidates = (path / "__init__.py", path.parent / f"{path.name}.py") if first == "musadata" else ()
            self._paths[module] = next((file for file in candidates if file.is_file()), None)
        return self._paths[module]

    def _statements(self, module: str) -> tuple[_Statement, ...]:
        if module not in self._parsed:
            path = self._path(module)
            assert path is not None
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            self._parsed[module] = _parse(path.read_text(encoding="utf-8"), package)
        return self._parsed[module]


def _data_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith((".", "__pycache__")) for part in parts)
        if path.is_file() and not hidden and path.suffix != ".py" and path.name != "README.md":
            yield path


@cache
def _parse(text: str, package: str) -> tuple[_Statement, ...]:
    module = ast.parse(text)
    _remove_docstring(module)
    return tuple(_read_statement(one, package) for node in module.body for one in _split(node))


def _split(node: ast.stmt) -> Iterator[ast.stmt]:
    """An import of several names as several imports."""
    if isinstance(node, ast.ImportFrom):
        yield from (ast.ImportFrom(node.module, [alias], node.level) for alias in node.names)
    else:
        yield node


def _read_statement(top: ast.stmt, package: str) -> _Statement:
    mentions: set[str] = set()
    imports: list[str] = []
    left: list[ast.AST] = [top]
    while left:
        node = left.pop()
        if isinstance(node, ast.Name):
            mentions.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            imports += _MODULE.findall(node.value)
            imports += (f"{package}.{stem}" for stem in _PROGRAM.findall(node.value))
            if len(node.value) < _LONGEST_ANNOTATION:
                mentions.update(_WORD.findall(node.value))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            imports += _imported(node, package)
        elif isinstance(node, _DEFINITIONS):
            _remove_docstring(node)
        elif isinstance(node, ast.Subscript) and _last_name(node.value) == "Annotated":
            node.slice = cast(ast.Tuple, node.slice).elts[0]  # what is said of it is documentation
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            left += node.orelse
            continue
        left += ast.iter_child_nodes(node)
    digest = hashlib.sha256(ast.dump(top).encode(errors="surrogatepass")).digest()
    return _Statement(frozenset(_defined(top)), digest, frozenset(mentions), tuple(imports))


def _remove_docstring(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
    if ast.get_docstring(node, clean=False) is not None:
        del node.body[0]


def _imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    parents = package.split(".")
    folder = ".".join(parents[: len(parents) + 1 - node.level]) if node.level else ""
    base = ".".join(part for part in (folder, node.module) if part)
    yield from (f"{base}.{alias.name}" if alias.name != "*" else base for alias in node.names)


def _defined(top: ast.stmt) -> Iterator[str]:
    """The names that a statement binds; none if it may do anything else."""
    if isinstance(top, _DEFINITIONS):
        if all(_last_name(decorator) in _WITHOUT_EFFECT for decorator in top.decorator_list):
            yield top.name
    elif isinstance(top, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in top.names)
    elif isinstance(top, ast.Assign) and all(isinstance(target, ast.Name) for target in top.targets):
        yield from (target.id for target in top.targets if isinstance(target, ast.Name))
    elif isinstance(top, ast.AnnAssign) and isinstance(top.target, ast.Name):
        yield top.target.id


def _last_name(decorator: ast.expr) -> str:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
