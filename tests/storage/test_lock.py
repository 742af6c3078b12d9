"""Two runs never work on one corpus, and a run that died locks nobody out."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress

import fsspec
import pytest

from musadata.errors import MusadataError
from musadata.storage import files, lock
from musadata.storage.lock import lock_corpus


def raising(error):
    def fail(*_):
        raise error

    return fail


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


def test_lock_on_an_object_store_that_nobody_renews_is_taken_over_by_one(store):
    seen = time.time() - lock._STALE_SECONDS - 1
    gone = {"host": "gone", "process": 1, "since": "2026", "seen": seen}
    files.write_atomic(lock._path(store, 41), json.dumps(gone).encode())
    held = []

    def race():
        with suppress(MusadataError), lock_corpus(store):
            held.append(1)
            time.sleep(0.5)

    racers = [threading.Thread(target=race) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert len(held) == 1 and lock._numbers(store) == [0, 42]


def test_a_run_that_was_cut_off_learns_that_another_has_taken_over(store, monkeypatch):
    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.05)
    lost = threading.Event()
    with lock_corpus(store, lambda text: lost.set()):
        files.write_atomic(lock._path(store, 2), lock._own())
        assert lost.wait(5)
    assert json.loads(files.read_bytes(lock._path(store, 2)))["process"] == os.getpid()  # the other's file stays


def test_a_run_that_cannot_renew_its_lock_gives_up_before_others_take_it(store, monkeypatch):
    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lock, "_STALE_SECONDS", 0.4)
    lost = threading.Event()
    with lock_corpus(store, lambda text: lost.set()), monkeypatch.context() as patch:
        patch.setattr(files, "list_names", raising(MusadataError("no network")))
        assert lost.wait(5)


def test_lock_on_an_object_store_is_renewed_while_the_run_goes_on(store, monkeypatch):
    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.05)
    with lock_corpus(store):
        first = json.loads(files.read_bytes(lock._path(store, 1)))["seen"]
        time.sleep(0.5)
        assert json.loads(files.read_bytes(lock._path(store, 1)))["seen"] > first


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_corpus_on_a_read_only_mount_needs_no_lock(tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(tmp_path)], check=True, capture_output=True)
    try:
        with lock_corpus(str(tmp_path)):
            assert not list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
