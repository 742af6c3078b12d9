"""What is remembered of code is never that of other code."""

import json
import os
from pathlib import Path

import pytest

from musadata.storage import version_cache
from musadata.storage.version_cache import hash_contents, remember

PRODUCERS = ("musadata.a",)
HASH, OTHER = "1" * 64, "2" * 64


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(version_cache, "_contents_at_first", hash_contents)  # as in a new process
    return tmp_path / "cache"


@pytest.fixture
def package(tmp_path) -> Path:
    (tmp_path / "package" / "inner").mkdir(parents=True)
    (tmp_path / "package" / "a.py").write_text("one = 1\n")
    (tmp_path / "package" / "inner" / "table.txt").write_text("row\n")
    return tmp_path / "package"


def never(root: Path, producers: tuple[str, ...]) -> str:
    raise AssertionError("hashed again")


def test_code_that_has_not_changed_is_not_hashed_again(package):
    assert remember(package, PRODUCERS, lambda *_: HASH) == HASH
    assert remember(package, PRODUCERS, never) == HASH
    assert remember(package, ("musadata.b",), lambda *_: OTHER) == OTHER
    assert remember(package, PRODUCERS, never) == HASH


@pytest.mark.parametrize("file", ["a.py", "inner/table.txt"])
def test_an_edit_counts_though_size_and_time_are_the_same(package, file):
    remember(package, PRODUCERS, lambda *_: HASH)
    path, before = package / file, (package / file).stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert remember(package, PRODUCERS, lambda *_: OTHER) == OTHER


def test_new_removed_and_renamed_files_count_and_compiled_ones_do_not(package):
    seen = {hash_contents(package)}
    (package / "b.py").write_text("")
    seen.add(hash_contents(package))
    (package / "b.py").rename(package / "c.py")
    seen.add(hash_contents(package))
    (package / "inner" / "table.txt").unlink()
    seen.add(hash_contents(package))
    assert len(seen) == 4
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "a.pyc").write_text("1")
    assert hash_contents(package) in seen


def test_an_edit_while_it_is_hashed_is_not_remembered(package):
    def edit(root: Path, producers: tuple[str, ...]) -> str:
        (root / "a.py").write_text("two = 2\n")
        return HASH

    before = (package / "a.py").read_text()
    assert remember(package, PRODUCERS, edit) == HASH
    assert remember(package, PRODUCERS, lambda *_: OTHER) == OTHER
    (package / "a.py").write_text(before)
    assert remember(package, PRODUCERS, lambda *_: OTHER) == OTHER


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00",
        b"[]",
        b'{"contents": 1, "hashes": []}',
        json.dumps({"contents": "of other code", "hashes": {"musadata.a": OTHER}}).encode(),
    ],
)
def test_a_file_that_is_corrupt_or_of_other_code_is_replaced(package, cache, content):
    remember(package, PRODUCERS, lambda *_: OTHER)
    (file,) = (cache / "code_versions").iterdir()
    file.write_bytes(content)
    assert remember(package, PRODUCERS, lambda *_: HASH) == HASH
    assert remember(package, PRODUCERS, never) == HASH


def test_a_value_that_is_no_hash_is_ignored(package, cache):
    remember(package, PRODUCERS, lambda *_: OTHER)
    (file,) = (cache / "code_versions").iterdir()
    file.write_text(file.read_text().replace(OTHER, "anything"))
    assert remember(package, PRODUCERS, lambda *_: HASH) == HASH


def test_a_cache_that_cannot_be_written_does_no_harm(package, cache):
    cache.write_text("a file where the folder should be")
    assert remember(package, PRODUCERS, lambda *_: HASH) == HASH
    assert remember(package, PRODUCERS, lambda *_: OTHER) == OTHER


def test_copies_of_a_package_do_not_push_each_other_out(package, tmp_path):
    package.joinpath("a.py").write_text("of one")
    other = tmp_path / "other"
    other.mkdir()
    remember(package, PRODUCERS, lambda *_: HASH)
    remember(other, PRODUCERS, lambda *_: OTHER)
    assert (remember(package, PRODUCERS, never), remember(other, PRODUCERS, never)) == (HASH, OTHER)
