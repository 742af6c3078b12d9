"""A file appears whole or not at all, wherever it lies."""

import errno
import os
import subprocess
import sys
import uuid
from pathlib import Path

import fsspec
import pytest

from musadata.errors import MusadataError
from musadata.storage import files


@pytest.fixture(params=["local", "memory", "renaming"])
def folder(request, tmp_path, monkeypatch):
    """A local folder, an object store, and a remote file system with atomic renames."""
    if request.param == "local":
        return str(tmp_path)
    if request.param == "renaming":
        monkeypatch.setattr(files, "_RENAMES_ATOMICALLY", {"memory"})
    return f"memory://{uuid.uuid4().hex}"


def test_what_is_written_is_read(folder):
    path = files.join(folder, "a", "b.bin")
    files.write_atomic(path, b"one")
    files.write_atomic(path, b"three")
    assert files.read_bytes(path) == b"three"
    assert files.size(path) == 5
    assert files.exists(path) and not files.exists(files.join(folder, "a"))
    assert files.is_folder(files.join(folder, "a")) and not files.is_folder(path)
    assert files.list_names(files.join(folder, "a")) == ["b.bin"]
    assert files.sha256(path) == "8b5b9db0c13db24256c829aa364aa90c6d2eba318b9232a4ab9313b954d3555f"


def test_a_block_that_raises_leaves_nothing_and_the_old_file_as_it_was(folder):
    path = files.join(folder, "x")
    files.write_atomic(path, b"old")
    with pytest.raises(KeyError), files.create(path) as file:
        file.write(b"new")
        raise KeyError("stop")
    assert files.read_bytes(path) == b"old"
    assert files.list_names(folder) == ["x"]


def test_a_file_is_not_seen_before_it_is_whole(folder):
    path = files.join(folder, "x")
    with files.create(path) as file:
        file.write(b"half")
        file.flush()
        assert not files.exists(path)
    assert files.read_bytes(path) == b"half"


def test_errors_of_the_block_itself_keep_their_type(folder):
    with pytest.raises(FileNotFoundError), files.create(files.join(folder, "x")):
        Path("/no/such/file").read_bytes()


def test_what_is_not_there(folder):
    path = files.join(folder, "nothing")
    assert not files.exists(path) and not files.is_folder(path) and files.list_names(path) == []
    files.remove(path)
    with pytest.raises(MusadataError, match="no such file"):
        files.read_bytes(path)


def test_removed_files_are_gone(folder):
    path = files.join(folder, "x")
    files.write_atomic(path, b"x")
    files.remove(path)
    assert files.list_names(folder) == []


def test_listing_a_file_gives_nothing(folder):
    files.write_atomic(files.join(folder, "x"), b"x")
    assert files.list_names(files.join(folder, "x")) == []


def test_a_file_where_a_folder_should_be_is_named(tmp_path):
    (tmp_path / "tasks").write_text("I am a file")
    with pytest.raises(MusadataError, match="a file stands where a folder should be"):
        files.write_atomic(f"{tmp_path}/tasks/shard", b"x")


def test_a_folder_where_a_file_should_be_is_named(tmp_path):
    (tmp_path / "shard").mkdir()
    with pytest.raises(MusadataError, match="a folder stands where a file should be"):
        files.write_atomic(f"{tmp_path}/shard", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["shard"]


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path, monkeypatch):
    def no_space(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(MusadataError, match="No space left on device"):
        files.write_atomic(f"{tmp_path}/x", b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_permission_is_one_clear_error(tmp_path):
    """In a process that is not root, since root may write anywhere."""
    program = """
import os, sys
from musadata.storage import files
from musadata.errors import MusadataError
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    files.write_atomic(sys.argv[1] + "/x", b"x")
except MusadataError as error:
    print("mendable:", error)
"""
    tmp_path.chmod(0o555)
    result = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.stdout.startswith("mendable:") and "permission denied" in result.stdout, result.stderr


def test_an_unknown_protocol_says_so():
    with pytest.raises(MusadataError, match="nosuch"):
        files.read_bytes("nosuch://bucket/file")


def test_file_urls_and_paths_mean_the_same(tmp_path):
    files.write_atomic(f"file://{tmp_path}/x", b"x")
    assert files.read_bytes(str(tmp_path / "x")) == b"x"
    assert files.absolute("gs://bucket/x") == "gs://bucket/x"
    assert files.absolute("x") == str(Path.cwd() / "x")


def test_an_upload_that_fails_is_not_taken_for_a_file(monkeypatch):
    """fsspec closes, and so uploads, a file whose writer has raised; ours must not."""
    system = fsspec.filesystem("memory")
    name = f"/{uuid.uuid4().hex}/x"
    with pytest.raises(KeyError), files.create(f"memory:/{name}") as file:
        file.write(b"half")
        raise KeyError
    assert not system.exists(name)
