"""Repositories read from their object store."""

import os
import shutil
import subprocess
import zlib

import pytest

from musadata.config import SourceConfig, SourceType
from musadata.errors import MusadataError
from musadata.mining.miner import Miner
from musadata.sources import open_source
from musadata.sources.protocol import UnreadableFile

NET = "from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x.tanh()\n"


def git(folder, *arguments):
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    command = ["git", "-C", str(folder), "-c", "commit.gpgsign=false", *arguments]
    return (
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **identity}).stdout.decode().strip()
    )


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "upstream"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "net.py").write_text(NET)
    (folder / "LICENSE").write_text("Permission is hereby granted, free of charge, to any person obtaining a copy")
    (folder / "link.py").symlink_to("net.py")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def open_repository(url, revision="", **keys):
    return open_source(SourceConfig(SourceType.GIT, url=str(url), revision=revision, **keys), seed=1)


def test_files_come_from_the_commit_and_not_from_the_work_tree(repository):
    (repository / "net.py").write_text("changed = 1\n")
    source = open_repository(repository)
    assert source.units() == ["net.py"]
    assert source.tree.read("net.py").decode() == NET


def test_an_older_revision_can_be_read(repository):
    first = git(repository, "rev-parse", "HEAD")
    (repository / "other.py").write_text("x = 1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    assert open_repository(repository, first).units() == ["net.py"]
    assert open_repository(repository, "main").units() == ["net.py", "other.py"]
    assert open_repository(repository, first).provenance("net.py", "1-2").revision == first


def test_a_bare_mirror_works_as_well(repository, tmp_path):
    git(tmp_path, "clone", "-q", "--mirror", str(repository), "mirror.git")
    assert open_repository(tmp_path / "mirror.git").units() == ["net.py"]


def test_a_url_is_fetched_once_and_without_a_work_tree(repository, tmp_path):
    url = f"file://{repository}"
    git(repository, "config", "uploadpack.allowFilter", "true")
    source = open_repository(url)
    assert source.tree.read("net.py").decode() == NET
    assert source.provenance("net.py", "1-2").license == "MIT"
    [place] = (tmp_path / "cache" / "musadata" / "git").iterdir()
    assert not (place / "net.py").exists()
    repository.rename(tmp_path / "gone")
    assert open_repository(url).units() == ["net.py"]


def test_a_repository_that_is_not_there_is_the_users_mistake(tmp_path):
    with pytest.raises(MusadataError, match="check url and revision"):
        open_repository(f"file://{tmp_path}/nowhere")
    with pytest.raises(MusadataError):
        open_repository(tmp_path / "nowhere")


def test_a_revision_that_is_not_there_or_is_an_option_is_refused(repository):
    for revision in ("nope", "--output=/tmp/x", "-h"):
        with pytest.raises(MusadataError):
            open_repository(repository, revision)


def test_unreadable_objects_are_rejected_and_the_rest_is_read(repository):
    (repository / "bad.py").write_text("x = 1\n")
    (repository / "gone.py").write_text("y = 1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    damaged, missing = (_object(repository, name) for name in ("bad.py", "gone.py"))
    damaged.chmod(0o644)
    damaged.write_bytes(zlib.compress(b"blob 6\0x = 2\n"))
    missing.unlink()
    tree = open_repository(repository).tree
    for name in ("bad.py", "gone.py"):
        with pytest.raises(UnreadableFile) as caught:
            tree.read(name)
        assert caught.value.reason == "unreadable_object"
    assert tree.read("net.py").decode() == NET


def test_a_repository_that_vanishes_half_way_is_rejected_file_by_file(repository):
    source = open_repository(repository)
    assert source.units() == ["net.py"]
    shutil.rmtree(repository)
    [reject] = Miner(source).drafts("net.py", None)
    assert (reject.reason, reject.origin) == ("unreadable_object", f"{source.origin}/net.py")


def test_a_folder_that_cannot_be_listed_is_rejected_and_the_rest_is_read(repository):
    for folder in ("lost", "whole/deep"):
        (repository / folder).mkdir(parents=True)
        (repository / folder / "other.py").write_text(f"# {folder}\n{NET}")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    _object(repository, "lost").unlink()
    source = open_repository(repository)
    assert source.units() == ["lost", "net.py", "whole/deep/other.py"]
    [reject] = Miner(source).drafts("lost", None)
    assert (reject.reason, reject.origin) == ("unreadable_object", f"{source.origin}/lost")


def test_a_file_whose_name_is_no_utf8_is_read_as_any_other(repository):
    (repository / os.fsdecode(b"na\xffme.py")).write_text(NET)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    source = open_repository(repository)
    assert [ascii(unit) for unit in source.units()] == ["'na\\udcffme.py'", "'net.py'"]
    assert source.tree.read(source.units()[0]).decode() == NET


def test_a_repository_without_its_commit_is_named_with_a_remedy(repository):
    head = git(repository, "rev-parse", "HEAD")
    (repository / ".git" / "objects" / head[:2] / head[2:]).unlink()
    with pytest.raises(MusadataError, match="check url and revision"):
        open_repository(repository)


def _object(repository, name):
    oid = git(repository, "rev-parse", f"HEAD:{name}")
    return repository / ".git" / "objects" / oid[:2] / oid[2:]


def test_a_huge_file_is_rejected_without_being_kept(repository):
    (repository / "huge.py").write_bytes(b"x = 1\n" * 9_000_000)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    tree = open_repository(repository).tree
    with pytest.raises(UnreadableFile) as caught:
        tree.read("huge.py")
    assert caught.value.reason == "file_too_large"
    assert tree.read("net.py").decode() == NET


def test_hooks_and_filters_of_the_repository_do_not_run(repository, tmp_path):
    mark = tmp_path / "ran"
    git(repository, "config", "core.fsmonitor", f"touch {mark}")
    git(repository, "config", "core.pager", f"touch {mark}")
    source = open_repository(repository)
    source.tree.read("net.py")
    assert not mark.exists()


def test_rows_name_the_public_remote_without_its_password(repository):
    git(repository, "remote", "add", "origin", "https://user:secret@github.com/me/net.git")
    provenance = open_repository(repository).provenance("net.py", "1-2")
    assert provenance.origin == "git:https://github.com/me/net"
    assert provenance.repository == "https://github.com/me/net"
