"""A folder that is looked at once looks as it does when every question goes to the file system."""

import shutil
import tempfile

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.storage import files

FILES = ("a", "b.json", "in/a", "in/b.json", "in/deeper/c", "other/a")
PLACES = ("", "in", "in/deeper", "other", "nowhere", "in/missing", *FILES)
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["write", "remove"]), st.sampled_from(FILES), st.binary(max_size=3)), max_size=12
)


def make_folder(kind: str) -> str:
    if kind == "local":
        return tempfile.mkdtemp()
    fsspec.filesystem("memory").store.clear()
    return "memory://corpus"


def do(root: str, actions: list[tuple[str, str, bytes]]) -> None:
    for action, name, data in actions:
        path = files.join(root, name)
        files.write_atomic(path, data) if action == "write" else files.remove(path)


def look(root: str) -> dict[str, object]:
    """All that can be asked, but of folders: those that became empty stay on a disk."""
    found: dict[str, object] = {}
    for name in PLACES:
        path = files.join(root, name) if name else root
        size = files.size(path)
        found[name] = (size, files.read_bytes(path) if size is not None else None)
        found[f"{name}/"] = [one for one in files.list_names(path) if files.exists(files.join(path, one))]
    return found


@pytest.mark.parametrize("kind", ["local", "memory"])
@settings(max_examples=15, deadline=None)
@given(before=ACTIONS, inside=ACTIONS)
def test_a_survey_answers_as_the_file_system_does(kind, before, inside):
    root = make_folder(kind)
    do(root, before)
    with files.survey(root, lambda path: path.endswith(".json")):
        first = look(root)
        do(root, inside)
        second = look(root)
    assert second == look(root)
    with files.survey(root, lambda path: False):
        do(root, [("remove", name, b"") for name in FILES])
        do(root, before)
        assert look(root) == first
    if kind == "local":
        shutil.rmtree(root)


def test_what_lies_beside_the_folder_is_not_part_of_it(tmp_path):
    (tmp_path / "corpus").mkdir()
    with files.survey(str(tmp_path / "corpus"), lambda path: True):
        (tmp_path / "corpus-2").mkdir()
        (tmp_path / "corpus-2" / "a").write_text("1")
        assert files.size(str(tmp_path / "corpus-2" / "a")) == 1
        assert files.list_names(str(tmp_path)) == ["corpus", "corpus-2"]


def test_folders_are_listed_and_known(tmp_path):
    files.write_atomic(str(tmp_path / "in" / "deeper" / "c"), b"1")
    with files.survey(str(tmp_path), lambda path: True):
        assert files.list_names(str(tmp_path)) == ["in"]
        assert files.is_folder(str(tmp_path / "in")) and not files.is_folder(str(tmp_path / "other"))
        files.write_atomic(str(tmp_path / "other" / "a"), b"1")
        assert files.list_names(str(tmp_path)) == ["in", "other"] and files.is_folder(str(tmp_path / "other"))


def test_a_survey_ends_with_its_block(tmp_path):
    with pytest.raises(KeyError), files.survey(str(tmp_path), lambda path: True):
        raise KeyError
    (tmp_path / "a").write_text("1")
    assert files.exists(str(tmp_path / "a"))
