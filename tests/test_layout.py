"""The way of the data is visible in the folders: a package imports only from packages to its left, wherever it does."""

import ast
import gc
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import musadata

ROOT = Path(musadata.__file__).parent
TRUSTED, SANDBOXED = "musadata.verifier.trusted", "musadata.verifier.sandboxed"
WAY = ("sources", "mining", "tasks", "tracing", "compiler", "teacher", "verifier", "sampling", "corpus")
BELOW = (
    "bounds",
    "sandbox",
    "config",
    "cpp",
    "dispatch",
    "errors",
    "operators",
    "records",
    "rows",
    "schema",
    "storage",
    "training_rows",
)  # what all of them stand on


@cache
def parsed(path: Path) -> ast.Module:
    """The file's syntax tree, read while nothing is collected.

    Pytest parses source to print a finaliser's error, and CPython 3.11 counts the depth of all parsers in one place:
    such an error inside `ast.parse` made it raise SystemError.
    """
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def imported(path: Path) -> Iterator[str]:
    """Dotted names of all that a file imports, inside functions too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports() -> Iterator[tuple[Path, str, str]]:
    """(file, its room, what it imports)."""
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for name in imported(path):
            yield path.relative_to(ROOT), room, name


def test_a_package_imports_only_from_packages_to_its_left():
    for path, room, name in imports():
        target = name.removeprefix("musadata.").partition(".")[0] if name.startswith("musadata.") else ""
        if target in WAY and room in WAY:
            assert WAY.index(target) <= WAY.index(room), f"{path} imports {name}"
        if room in BELOW:
            assert target not in WAY, f"{path} imports {name}"


def test_no_package_knows_of_beam_or_the_pipelines():
    for path, _, name in imports():
        assert name.partition(".")[0] not in ("apache_beam", "pipelines"), f"{path} imports {name}"


def test_every_dispatch_mode_is_one_that_does_not_import_the_compiler():
    for path, room, name in imports():
        assert room == "dispatch" or not name.endswith("TorchDispatchMode"), f"{path} imports {name}"


@cache
def import_graph() -> dict[str, set[str]]:
    """The modules of this project that each of them names in an import."""
    files = {}
    for path in (*ROOT.rglob("*.py"), *(ROOT.parent / "pipelines").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        files[name.removesuffix(".__init__")] = path
    return {
        name: {target if target in files else target.rpartition(".")[0] for target in imported(path)} & set(files)
        for name, path in files.items()
    }


def reached(graph: dict[str, set[str]], starts: Iterable[str]) -> set[str]:
    """All nodes that imports lead to, with the first ones."""
    found: set[str] = set()
    waiting = set(starts)
    while waiting:
        found.add(name := waiting.pop())
        waiting |= graph[name] - found
    return found


def test_trusted_and_sandboxed_code_never_reach_each_other():
    graph = import_graph()
    for start, end in ((SANDBOXED, TRUSTED), (TRUSTED, SANDBOXED)):
        found = reached(graph, [name for name in graph if name.startswith(start)])
        assert f"{start}" in found
        assert not [name for name in found if name.startswith(end)]


def cycles(graph: dict[str, set[str]]) -> list[str]:
    return sorted(name for name, targets in graph.items() if name in reached(graph, targets - {name}))


def test_no_file_imports_itself_through_others():
    assert cycles(import_graph()) == []


def test_no_folder_imports_itself_through_others():
    """Entry points aside: they stand above what they start."""

    def folder(name: str) -> str:
        is_package = (ROOT.parent / name.replace(".", "/")).is_dir()
        return name if is_package else name.rpartition(".")[0]

    folders: dict[str, set[str]] = {}
    for name, targets in import_graph().items():
        found = folders.setdefault(folder(name), set())
        found |= set() if name.endswith("__main__") else {folder(target) for target in targets}
    assert cycles({name: targets - {name} for name, targets in folders.items()}) == []
