"""The way of the data is visible in the folders: a package imports only from packages to its left, wherever it does."""

import ast
from collections.abc import Iterator
from pathlib import Path

import musadata

ROOT = Path(musadata.__file__).parent
WAY = ("sources", "mining", "tasks", "tracing", "teacher", "verifier", "sampling", "corpus")
BELOW = ("sandbox", "config", "dispatch", "errors", "journal", "records", "rows", "schema")  # what all of them stand on


def imported(path: Path) -> Iterator[str]:
    """Dotted names of all that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
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
