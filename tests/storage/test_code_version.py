"""What an edit makes anew: copies of the package are really edited."""

import ast
import random
import shutil
from pathlib import Path

import pytest

from musadata.storage.code_version import BY_DEFINITION, CHOOSERS, ROOT, code_version, hash_closure

DIRECTORY = "musadata.sources.directory:open_directory"
PRODUCERS = {
    "probing": ("musadata.sandbox", "musadata.mining.miner", "musadata.tasks.probe", DIRECTORY),
    "selection": ("musadata.tasks.selection",),
    "annotation": ("musadata.tracing.task", "musadata.teacher.annotation", "musadata.teacher.compiler_teacher"),
    "verdicts": ("musadata.verifier.verifier", "musadata.verifier.backends.emulated.emulated_backend"),
    "assembly": ("musadata.sampling.assembly", "musadata.corpus.views"),
}


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    copy = tmp_path_factory.mktemp("copy") / "musadata"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def changed(package: Path, file: str, text: str) -> set[str]:
    """The kinds of results that change when a file becomes `text`; it is put back."""
    path = package / file
    before = {name: hash_closure(package, producers) for name, producers in PRODUCERS.items()}
    old = path.read_text() if path.exists() else None
    path.write_text(text)
    try:
        return {name for name, producers in PRODUCERS.items() if hash_closure(package, producers) != before[name]}
    finally:
        if old is None:
            path.unlink()
        else:
            path.write_text(old)


def locate(package: Path, name: str) -> str:
    """The path of a file by the end of it, wherever its folder lies."""
    (found,) = [path for path in package.rglob(name.rpartition("/")[2]) if path.as_posix().endswith(f"/{name}")]
    return found.relative_to(package).as_posix()


def edited(package: Path, file: str, old: str, new: str) -> set[str]:
    text = (package / file).read_text()
    assert old in text
    return changed(package, file, text.replace(old, new, 1))


def definitions(package: Path, file: str) -> list[ast.stmt]:
    return ast.parse((package / file).read_text()).body


@pytest.mark.parametrize("file", ["tasks/probe.py", "records.py", "verifier/verifier.py", "teacher/protocol.py"])
def test_comments_blank_lines_and_docstrings_change_nothing(package, file):
    text = (package / file).read_text()
    assert not changed(package, file, text.replace("\n\n\n", "\n\n\n\n# a comment\n\n\n"))
    documented = ast.parse(text)
    for node in ast.walk(documented):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Expr(ast.Constant("Something else."))
    assert ast.unparse(documented) != ast.unparse(ast.parse(text))
    assert not changed(package, file, ast.unparse(documented))


def test_a_readme_and_what_python_compiled_change_nothing(package):
    (package / "tasks/__pycache__").mkdir(exist_ok=True)
    for file in ("tasks/README.md", "teacher/templates/README.md", "tasks/__pycache__/a.cpython-311.pyc"):
        assert not changed(package, file, "something else")


def test_a_dataset_s_dataclass_changes_only_what_is_made_of_it(package):
    assert edited(package, "records.py", "class Reject:", "class Reject:\n    new: int") >= {"probing", "annotation"}
    assert edited(package, "training_rows.py", "class RftRow:", "class RftRow:\n    new: int") == {"assembly"}
    text = (package / "records.py").read_text()
    assert not changed(package, "records.py", f"{text}\n@dataclass(frozen=True)\nclass OtherRow:\n    row_id: str\n")


NOT_CHOSEN = ("sources/git.py", "sources/nnsmith.py", "teacher/openai.py", "teacher/replay.py")
NOT_ASKED = ("musa_backend.py", "cuda_backend.py")
PUBLISHING = ("corpus/report.py", "corpus/card.md", "storage/commits.py")


@pytest.mark.parametrize("file", [*NOT_CHOSEN, *NOT_ASKED, *PUBLISHING])
def test_what_was_not_chosen_and_what_only_publishes_changes_nothing(package, file):
    file = locate(package, file)
    assert not changed(package, file, (package / file).read_text() + "\nanother = 1\n")


@pytest.mark.parametrize(
    ("file", "kinds"),
    [
        ("sources/directory.py", {"probing"}),
        ("matrix_structure.py", {"probing", "annotation", "verdicts"}),
        ("tasks/selection.py", {"selection"}),
        ("compiler_teacher.py", {"annotation"}),
        ("arithmetic_faults.py", {"annotation"}),
        ("verifier/verifier.py", {"verdicts"}),
        ("verifier/extract.py", {"verdicts", "assembly"}),
        ("sandboxed/execute.py", {"verdicts"}),
        ("front_end.py", {"verdicts"}),
        ("emulated_hook.py", {"verdicts"}),
        ("sandbox/child.py", {"probing", "annotation", "verdicts"}),
        ("sampling/structure.py", {"assembly"}),
    ],
)
def test_code_counts_for_what_is_made_with_it_however_it_is_named(package, file, kinds):
    file = locate(package, file)
    assert changed(package, file, (package / file).read_text() + "\nanother = 1\n") == kinds


@pytest.mark.parametrize(
    ("file", "kinds"),
    [
        ("system.md", {"annotation", "assembly"}),
        ("operators/operators.yaml", {"annotation"}),
        ("timm.layers.txt", {"probing"}),
        ("tasks/fingerprints/kernelbench.json", {"probing", "selection"}),
        ("runtime/launch.cpp", {"verdicts"}),
        ("include/cuda/cmath", {"verdicts"}),
        ("aten_allowlist.txt", {"verdicts"}),
    ],
)
def test_data_files_count_by_their_bytes(package, file, kinds):
    file = locate(package, file)
    assert kinds <= changed(package, file, (package / file).read_text() + " ")


def counted_files(package: Path, producers: tuple[str, ...], choose: random.Random) -> list[Path]:
    """Some files of which any edit counts, found by adding a statement to each."""
    before, found = hash_closure(package, producers), []
    exempt = {name.replace(".", "/").removeprefix("musadata/") for name in (*BY_DEFINITION, *CHOOSERS)}
    files = sorted(package.rglob("*.py"))
    for path in choose.sample(files, len(files)):
        name = path.relative_to(package).with_suffix("").as_posix().removesuffix("/__init__")
        text = path.read_text()
        if name not in exempt and text:
            path.write_text(text + "\nanother = 1\n")
            found += [path] if hash_closure(package, producers) != before else []
            path.write_text(text)
        if len(found) == 20:  # a closure of few files is looked for in all of the package
            break
    return found


class Change(ast.NodeTransformer):
    """Deletes one statement, or changes one constant, that the choice falls on."""

    def __init__(self, tree: ast.Module, choose: random.Random):
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            and node.body
            and isinstance(node.body[0], ast.Expr)
            and ast.get_docstring(node, clean=False) is not None
        }
        nodes = [
            node
            for node in ast.walk(tree)
            if (isinstance(node, ast.stmt) and not (isinstance(node, ast.Expr) and id(node.value) in docstrings))
            or (isinstance(node, ast.Constant) and id(node) not in docstrings)
        ]
        self.chosen = choose.choice(nodes)

    def visit(self, node: ast.AST) -> ast.AST:
        if node is not self.chosen:
            return self.generic_visit(node)
        if isinstance(node, ast.Constant):
            return ast.Constant("another value")
        return ast.Expr(ast.Constant(...)) if not isinstance(node, ast.Expr) else ast.Pass()


@pytest.mark.parametrize("kind", PRODUCERS)
def test_any_statement_and_any_constant_of_the_closure_counts(package, kind):
    choose = random.Random(kind)
    producers = PRODUCERS[kind]
    before = hash_closure(package, producers)
    files = counted_files(package, producers, choose)
    assert files
    for _ in range(40):
        path = choose.choice(files)
        text = path.read_text()
        tree = ast.parse(text)
        if not any(not isinstance(node, ast.Expr) for node in tree.body):
            continue
        change = Change(tree, choose)
        path.write_text(ast.unparse(ast.fix_missing_locations(change.visit(tree))))
        try:
            assert hash_closure(package, producers) != before, (path, ast.dump(change.chosen))
        finally:
            path.write_text(text)
    assert hash_closure(package, producers) == before


def test_every_definition_that_a_result_is_made_of_counts_in_modules_of_many(package):
    assert edited(package, "records.py", "class Task:", "class Task:\n    new: int") == set(PRODUCERS)
    assert edited(package, "records.py", "class Provenance:", "class Provenance:\n    new: int") == set(PRODUCERS)
    assert edited(package, "training_config.py", "Within(1, 3)] = 3", "Within(1, 3)] = 2") == {"assembly", "verdicts"}
    assert edited(package, "config.py", "Within(2, 16)] = 2", "Within(2, 16)] = 3") == {"annotation"}


def test_an_unknown_producer_is_named():
    with pytest.raises(ValueError, match="nosuch"):
        code_version(("nosuch.module",))


def test_the_versions_of_packages_that_are_named_count():
    assert code_version(("musadata.corpus.funnel",), ("pyarrow",)) != code_version(("musadata.corpus.funnel",))
