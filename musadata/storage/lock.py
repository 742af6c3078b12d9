"""One run at a time on a corpus.

On this machine's file systems the kernel holds the lock (`flock`) and releases it with the process, however that ends.
Elsewhere a file is created under the condition that there is none, where the store knows such a condition, and is
rewritten every few seconds: one that has not been for a while was left by a run that died, and is taken over.
"""

import errno
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from musadata.errors import MusadataError
from musadata.storage import files

_NAME = ("_journal", "run.lock")
_BEAT_SECONDS = 15.0
_STALE_SECONDS = 120.0


@contextmanager
def lock_corpus(corpus: str) -> Iterator[None]:
    """Hold a corpus for this run. One that nobody may write to, such as a read-only mount, needs no lock.

    Raises:
        MusadataError: another run holds it (host, process, since when).
    """
    local = files.local_name(corpus)
    with _lock_local(local) if local is not None else _lock_remote(corpus):
        yield


@contextmanager
def _lock_local(corpus: str) -> Iterator[None]:
    path = Path(corpus, *_NAME)
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+b", buffering=0)
        except OSError as error:
            if error.errno in (errno.EROFS, errno.EACCES):
                yield
                return
            with files.explain(str(path), "cannot be written"):
                raise
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                raise _held(corpus, file.read()) from None
            if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                continue  # the run before has just ended and taken its file away
            with files.explain(str(path), "cannot be written"):
                file.truncate(0)
                file.write(_own())
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


@contextmanager
def _lock_remote(corpus: str) -> Iterator[None]:
    path, over = files.join(corpus, *_NAME), threading.Event()
    if not files.create_if_absent(path, _own()):
        holder = files.read_bytes(path)
        if time.time() - float(_parse(holder).get("seen", 0.0)) < _STALE_SECONDS:
            raise _held(corpus, holder)
        files.remove(path)
        if not files.create_if_absent(path, _own()):
            raise _held(corpus, files.read_bytes(path))

    def beat() -> None:
        while not over.wait(_BEAT_SECONDS):
            with suppress(MusadataError):
                files.write_atomic(path, _own())

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        files.remove(path)


_SINCE = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _own() -> bytes:
    holder = {"host": socket.gethostname(), "process": os.getpid(), "since": _SINCE, "seen": time.time()}
    return json.dumps(holder).encode()


def _parse(holder: bytes) -> dict[str, Any]:
    try:
        found = json.loads(holder)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _held(corpus: str, holder: bytes) -> MusadataError:
    found = _parse(holder)
    who = f"process {found.get('process', '?')} on {found.get('host', '?')} since {found.get('since', '?')}"
    return MusadataError(f"another run works on this corpus ({who})", where=corpus, remedy="wait for it or stop it")
