"""Two runs never work on one corpus, and a run that died locks nobody out."""

import json
import os
import subprocess
import sys
import time

import fsspec
import pytest

from musadata.errors import MusadataError
from musadata.storage import files, lock
from musadata.storage.lock import lock_corpus

HOLD = """
import sys, time
from musadata.storage.lock import lock_corpus
with lock_corpus(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_second_run_is_refused_and_told_who_holds_the_corpus(tmp_path, holder):
    told = rf"another run works on this corpus \(process {holder.pid} on .* since 20"
    with pytest.raises(MusadataError, match=told), lock_corpus(str(tmp_path)):
        pass


def test_lock_of_a_killed_run_is_taken_over(tmp_path, holder):
    holder.kill()
    holder.wait()
    with lock_corpus(str(tmp_path)):
        pass
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_lock_is_free_again_after_a_run_that_failed(tmp_path):
    with pytest.raises(ZeroDivisionError), lock_corpus(str(tmp_path)):
        raise ZeroDivisionError
    with lock_corpus(str(tmp_path)):
        pass


@pytest.fixture
def store():
    yield "memory://lock-test/corpus"
    fsspec.filesystem("memory").store.clear()


def test_on_an_object_store_the_second_run_is_refused_as_well(store):
    refused = pytest.raises(MusadataError, match="another run works on this corpus")
    with lock_corpus(store), refused, lock_corpus(store):
        pass
    with lock_corpus(store):
        pass


def test_lock_on_an_object_store_that_nobody_renews_is_taken_over(store):
    path = files.join(store, *lock._NAME)
    seen = time.time() - lock._STALE_SECONDS - 1
    files.write_atomic(path, json.dumps({"host": "gone", "process": 1, "since": "2026", "seen": seen}).encode())
    with lock_corpus(store):
        assert json.loads(files.read_bytes(path))["host"] != "gone"


def test_lock_on_an_object_store_is_renewed_while_the_run_goes_on(store, monkeypatch):
    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.05)
    with lock_corpus(store):
        first = json.loads(files.read_bytes(files.join(store, *lock._NAME)))["seen"]
        time.sleep(0.5)
        assert json.loads(files.read_bytes(files.join(store, *lock._NAME)))["seen"] > first


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_corpus_on_a_read_only_mount_needs_no_lock(tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(tmp_path)], check=True, capture_output=True)
    try:
        with lock_corpus(str(tmp_path)):
            assert not list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
