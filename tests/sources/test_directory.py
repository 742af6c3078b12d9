"""Folders and installed packages as sources, hostile files included."""

import shutil

import pytest

from musadata.config import SourceConfig, SourceType
from musadata.errors import MusadataError
from musadata.mining.miner import Miner
from musadata.records import Draft, Reject
from musadata.sandbox import Sandbox
from musadata.sources import open_source

GOOD = "from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x.tanh()\n"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(preload=("torch",)) as opened:
        yield opened


def open_folder(path, **keys):
    return open_source(SourceConfig(SourceType.DIRECTORY, path=str(path), **keys), seed=1)


def mine(path, sandbox):
    source = open_folder(path)
    return [item for unit in source.units() for item in Miner(source).drafts(unit, sandbox)]


def test_a_folder_without_python_is_the_users_mistake(tmp_path):
    (tmp_path / "readme.md").write_text("nothing")
    with pytest.raises(MusadataError, match="holds no Python files"):
        open_folder(tmp_path)


def test_a_folder_that_is_not_there_is_the_users_mistake(tmp_path):
    with pytest.raises(MusadataError, match="is not a folder"):
        open_folder(tmp_path / "nowhere")


def test_a_package_that_is_not_installed_is_the_users_mistake():
    with pytest.raises(MusadataError, match="is not installed"):
        open_source(SourceConfig(SourceType.PACKAGE, name="no_such_package_at_all"), seed=1)


def test_rows_do_not_depend_on_where_the_folder_lies(tmp_path, sandbox):
    found = []
    for place in ("one", "two"):
        (tmp_path / place / "code").mkdir(parents=True)
        (tmp_path / place / "code" / "net.py").write_text(GOOD)
        found.append(mine(tmp_path / place / "code", sandbox))
    assert found[0] == found[1]
    assert found[0][0].provenance.origin == "directory:code"


def test_units_are_the_python_files_that_match_in_order(tmp_path):
    for name in ("b.py", "a.py", "tests/t.py", "__pycache__/c.py", "note.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert open_folder(tmp_path).units() == ["a.py", "b.py", "tests/t.py"]
    assert open_folder(tmp_path, exclude=("tests/*",)).units() == ["a.py", "b.py"]
    assert open_folder(tmp_path, include=("tests/*",)).units() == ["tests/t.py"]


def test_bad_files_become_rejects_and_the_good_ones_are_mined(tmp_path, sandbox):
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nname = '\xe9'\n")
    (tmp_path / "odd.py").write_bytes(b"name = '\xe9'\n")
    (tmp_path / "null.py").write_bytes(b"a = 1\x00\n")
    (tmp_path / "syntax.py").write_text("class A(:\n")
    (tmp_path / "deep.py").write_text("x = " + "(" * 500 + "1" + ")" * 500)
    (tmp_path / "huge.py").write_bytes(b"x = 1\n" * 400_000)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    (tmp_path / "good.py").write_text(GOOD)
    found = mine(tmp_path, sandbox)
    reasons = {item.origin: item.reason for item in found if isinstance(item, Reject)}
    origin = f"directory:{tmp_path.name}"
    assert reasons == {
        f"{origin}/odd.py": "odd_encoding",
        f"{origin}/null.py": "odd_encoding",
        f"{origin}/syntax.py": "syntax_error",
        f"{origin}/deep.py": "syntax_error",
        f"{origin}/huge.py": "file_too_large",
    }
    assert [item.name for item in found if isinstance(item, Draft)] == ["Net"]


def test_a_folder_that_vanishes_half_way_is_rejected_file_by_file(tmp_path, sandbox):
    folder = tmp_path / "code"
    folder.mkdir()
    for name in ("a.py", "b.py", "c.py"):
        (folder / name).write_text(GOOD)
    source = open_folder(folder)
    first, *others = source.units()
    [draft] = Miner(source).drafts(first, sandbox)
    shutil.rmtree(folder)
    rejects = [item for unit in others for item in Miner(source).drafts(unit, sandbox)]
    assert isinstance(draft, Draft)
    assert [(item.reason, item.origin) for item in rejects] == [
        ("unreadable", "directory:code/b.py"),
        ("unreadable", "directory:code/c.py"),
    ]


def test_generated_files_of_any_size_are_read_no_further_than_hand_written_ones_reach(tmp_path, sandbox):
    with (tmp_path / "huge.py").open("wb") as file:
        file.truncate(50_000_000)
    (tmp_path / "net.py").write_text("from huge import missing\n" + GOOD.replace("x.tanh()", "missing(x)"))
    found = {item.reason for item in mine(tmp_path, sandbox)}
    assert found == {"file_too_large", "needs_package"}


def test_classes_that_descend_from_each_other_across_files_end(tmp_path, sandbox):
    (tmp_path / "a.py").write_text("from b import B\n\nclass A(B):\n    def forward(self, x):\n        return x\n")
    (tmp_path / "b.py").write_text("from a import A\n\nclass B(A):\n    def forward(self, x):\n        return x\n")
    (tmp_path / "good.py").write_text(GOOD)
    assert [item.name for item in mine(tmp_path, sandbox) if isinstance(item, Draft)] == ["Net"]


def test_hostile_code_is_contained(tmp_path, sandbox):
    (tmp_path / "evil.py").write_text(
        "import os\nfrom torch import nn\n\nMARK = open('/tmp/escaped', 'w')\n\n"
        "class Net(nn.Module):\n    def forward(self, x):\n"
        "        os.kill(os.getppid(), 9)\n        os._exit(0) or MARK\n        return x\n"
    )
    (tmp_path / "spin.py").write_text(
        "from torch import nn\n\nclass Spin(nn.Module):\n    def forward(self, x):\n        raise SystemExit(0)\n"
    )
    found = mine(tmp_path, sandbox)
    assert all(isinstance(item, Reject) for item in found)
    assert len(found) == 2


def test_the_licence_beside_the_code_is_on_every_row(tmp_path, sandbox):
    (tmp_path / "LICENSE").write_text("Permission is hereby granted, free of charge, to any person obtaining a copy")
    (tmp_path / "net.py").write_text(GOOD)
    [draft] = mine(tmp_path, sandbox)
    assert draft.provenance.license == "MIT"


def test_the_revision_of_a_folder_is_that_of_its_code(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.py").write_text(GOOD)
        (tmp_path / folder / "notes.txt").write_text(folder)
    same = [open_folder(tmp_path / folder).revision for folder in ("one", "two")]
    (tmp_path / "two" / "net.py").write_text(GOOD.replace("tanh", "sin"))
    assert same[0] == same[1] != open_folder(tmp_path / "two").revision
    assert open_folder(tmp_path / "one").provenance("net.py", "1").revision == ""
