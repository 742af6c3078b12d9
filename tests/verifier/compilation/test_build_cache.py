"""What a process that is killed leaves half-built is removed, and what another one builds is not."""

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from musadata.errors import Outage
from musadata.verifier.compilation.build_cache import build_once, remove_half_built

BUILD = """
import os, sys, time
from pathlib import Path
from musadata.verifier.compilation.build_cache import build_once

def build(partial):
    (partial / "a").write_text("half")
    print(partial, flush=True)
    time.sleep(60)

build_once(Path(sys.argv[1]), build)
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("place", ["library", "artifacts/ab/abc"])
def test_what_a_killed_process_left_half_built_is_removed(cache, place):
    with subprocess.Popen([sys.executable, "-c", BUILD, str(cache / place)], stdout=subprocess.PIPE) as builder:
        assert builder.stdout is not None
        partial = Path(builder.stdout.readline().decode().strip())
        remove_half_built()
        assert (partial / "a").exists()
        builder.kill()
    remove_half_built()
    assert not partial.exists()


def test_what_is_built_is_kept(cache):
    folder = build_once(cache / "library", lambda partial: (partial / "a").touch())
    remove_half_built()
    assert [path.name for path in folder.iterdir()] == ["a"]


def test_nothing_is_built_where_there_is_no_room_for_it(cache):
    built = []
    with pytest.raises(Outage, match="MB are free; make room there, or set MUSADATA_CACHE"):
        build_once(cache / "a" / "library", built.append, room=1 << 62)
    assert not built and list(cache.iterdir()) == []
    assert build_once(cache / "a" / "library", built.append) == cache / "a" / "library"


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), shutil.Error([("a", "b", "full")])]
)
def test_machine_that_fails_while_something_is_built_is_an_outage(cache, error):
    def build(partial):
        (partial / "half").touch()
        raise error

    with pytest.raises(Outage, match="compiler: cannot keep what was built"):
        build_once(cache / "library", build)
    assert [path.name for path in cache.iterdir()] == ["library.lock"]
