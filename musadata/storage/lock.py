"""One run at a time on a corpus.

On this machine's file systems the kernel holds the lock (`flock`) and releases it with the process, however that ends.
Elsewhere runs number themselves: a run creates the file of the next number under the condition that there is none, so
that one of several succeeds, and the highest number holds the corpus. Its holder rewrites it every few seconds. A file
that was not rewritten for a while was left by a run that died, and the next number may be taken. A run that was only
cut off finds a higher number than its own when it is back, and ends.
"""

import errno
import fcntl
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from musadata.errors import MusadataError
from musadata.storage import files

_FOLDER = "_journal"
_BEAT_SECONDS = 15.0
_STALE_SECONDS = 120.0


def _end_process(text: str) -> None:
    """What this process has started dies with it."""
    print(f"musadata: {text}", file=sys.stderr, flush=True)
    os._exit(1)


@contextmanager
def lock_corpus(corpus: str, when_lost: Callable[[str], None] = _end_process) -> Iterator[None]:
    """Hold a corpus for this run. One that nobody may write to, such as a read-only mount, needs no lock.

    `when_lost` is called, in another thread, when another run has taken the corpus over on an object store.

    Raises:
        MusadataError: another run holds it (host, process, since when).
    """
    local = files.local_name(corpus)
    with _lock_local(local) if local is not None else _lock_remote(corpus, when_lost):
        yield


@contextmanager
def _lock_local(corpus: str) -> Iterator[None]:
    path = Path(corpus, _FOLDER, "run.lock")
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
def _lock_remote(corpus: str, when_lost: Callable[[str], None]) -> Iterator[None]:
    number, over = _take_number(corpus), threading.Event()

    def beat() -> None:
        last = time.monotonic()
        while not over.wait(_BEAT_SECONDS):
            with suppress(MusadataError):
                if max(_numbers(corpus)) > number:
                    when_lost(f"{corpus}: another run has taken over, since this one was cut off for too long")
                    return
                files.write_atomic(_path(corpus, number), _own())
                last = time.monotonic()
            if time.monotonic() - last > _STALE_SECONDS - 2 * _BEAT_SECONDS:
                when_lost(f"{corpus}: cannot be reached, so that another run may take over; run the same command again")
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if max(_numbers(corpus)) == number:
            files.write_atomic(_path(corpus, number), b"{}")  # it stays, so that no number is given twice


def _take_number(corpus: str) -> int:
    """The next number, unless its predecessor is in use."""
    before = _numbers(corpus)
    if before[-1]:
        holder = files.read_bytes(_path(corpus, before[-1]))
        if time.time() - float(_parse(holder).get("seen", 0.0)) < _STALE_SECONDS:
            raise _held(corpus, holder)
    number = before[-1] + 1
    if not files.create_if_absent(_path(corpus, number), _own()):
        raise _held(corpus, files.read_bytes(_path(corpus, number)))
    for old in before[1:]:
        files.remove(_path(corpus, old))
    return number


def _numbers(corpus: str) -> list[int]:
    """Of all runs whose files are there, with 0 before them."""
    names = [name.split(".") for name in files.list_names(files.join(corpus, _FOLDER))]
    return sorted([0, *(int(name[2]) for name in names if name[:2] == ["run", "lock"] and name[2:])])


def _path(corpus: str, number: int) -> str:
    return files.join(corpus, _FOLDER, f"run.lock.{number:06d}")


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
