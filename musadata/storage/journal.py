"""What has already been paid for: executions, answers and verdicts, append-only, by the hash of the whole question.

A journal is a folder of segments, JSON lines of `{"key": ..., "value": ...}`. Every process appends to a segment of its
own and reads what the others have written by the time that it opens or refreshes the journal, so any number of
processes may share a folder. A line that a killed process left half-written is skipped: that question is asked again.
Of several values of one key the one in the oldest segment counts.

Only keys and places are held in memory; a value is read from its segment when it is asked for.
"""

import json
import os
import re
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import fsspec
from fsspec.implementations.local import LocalFileSystem

from musadata.errors import Outage
from musadata.storage.places import Places

# Where nothing can be appended (object stores), records wait until so many make a segment, but only so long.
_BUFFERED_RECORDS = 32
_BUFFERED_BYTES = 1 << 20
_BUFFERED_SECONDS = 1.0
# Made once: json.dumps makes one for each call. Dataclasses are written as their fields.
_compact = json.JSONEncoder(separators=(",", ":"), default=vars).encode
_PLAIN = re.compile(r"[\w.-]*", re.ASCII)
# The segments there are small and many: so many are read at a time, and as many are kept.
_READ_AT_ONCE = 64


class Journal:
    """A persistent mapping from keys to plain values (what JSON holds); safe for threads, forks and many processes.

    On a local folder each record is on its way to disk when `put` returns, or the block of `written_together` that it
    is in: it survives `kill -9`. Elsewhere it is written within 2 seconds, when enough records are together, on `flush`
    and on `close`.
    """

    def __init__(self, folder: str | Path, name: str):
        """Open or create the journal `name` in `folder` (a path or a URL that fsspec opens) and the folders below it.

        Raises:
            Outage: the folder cannot be made or read.
        """
        self._name = name
        self._files, self._folder = fsspec.core.url_to_fs(str(folder))
        self._local = isinstance(self._files, LocalFileSystem)
        self._lock = threading.RLock()
        self._places = Places()
        self._segments: list[str] = []
        self._numbers: dict[str, int] = {}
        self._read: dict[str, int] = {}  # segment -> bytes of it that are known
        self._contents: dict[str, bytes] = {}  # of segments on an object store that were used last
        self._pending: dict[bytes, bytes] = {}  # key -> record
        self._timer: threading.Timer | None = None
        self._segment: BinaryIO | None = None  # that this process appends to
        self._own = -1  # its number
        self._owner = os.getpid()
        try:
            self._files.makedirs(self._folder, exist_ok=True)
        except OSError as error:
            raise _unusable(self._folder, error, "opened") from error
        self.refresh()

    def refresh(self) -> None:
        """Learn what other processes have written since. Reads only what is new.

        Raises:
            Outage: the folder cannot be read.
        """
        with self._lock:
            try:
                self._files.invalidate_cache(self._folder)
                found = self._files.find(self._folder, detail=True)
                sizes = {str(path): int(about["size"]) for path, about in found.items() if self._is_segment(path)}
                grown = [path for path, size in sizes.items() if size > self._read.get(path, 0)]
                self._scan(sorted(grown, key=lambda path: path.rpartition("/")[2]))
            except OSError as error:
                raise _unusable(self._folder, error, "opened") from error

    def get(self, key: str) -> Any | None:
        """The value of a key; None if it was never put, or its segment has vanished.

        Raises:
            Outage: the journal cannot be read.
        """
        encoded = _encode(key)
        with self._lock:
            line = self._pending.get(encoded) or self._read_record(encoded)
            if not line:
                return None
            record = _parse(line)
            if record is not None and record["key"] == key:
                return record["value"]
            self._places.drop(encoded)
            return None

    def put(self, key: str, value: Any) -> None:
        """Remember a value for good. A key that is known keeps its value.

        Raises:
            Outage: the disk is full or the folder is not writable.
        """
        self.put_json(key, _compact(value))

    def put_json(self, key: str, value: str) -> None:
        """`put` of a value that is written as JSON already, on one line."""
        encoded = _encode(key)
        line = b'{"key":%b,"value":%b}\n' % (encoded, value.encode())
        with self._lock:
            if encoded in self._pending or self._places.find(encoded) is not None:
                return
            if self._owner != os.getpid():  # forked: the parent goes on with its segment and its pending records
                self._owner, self._segment, self._pending, self._timer = os.getpid(), None, {}, None
            together = _together.journals
            if together is not None:
                self._pending[encoded] = line
                together[id(self)] = self
            elif self._local:
                self._append({encoded: line})
            else:
                self._pending[encoded] = line
                if len(self._pending) >= _BUFFERED_RECORDS or sum(map(len, self._pending.values())) >= _BUFFERED_BYTES:
                    self._write_pending()
                else:
                    self._write_soon()

    def __contains__(self, key: str) -> bool:
        encoded = _encode(key)
        with self._lock:
            return encoded in self._pending or self._places.find(encoded) is not None

    def __len__(self) -> int:
        with self._lock:
            return len(self._places) + len(self._pending)

    def __iter__(self) -> Iterator[str]:
        """All keys, read from the segments."""
        with self._lock:
            self._write_pending()
            segments = dict(enumerate(self._segments))
        for number, segment in segments.items():
            for encoded, start, _ in _records(self._lines(segment, 0)):
                if encoded and (self._places.find(encoded) or ())[:2] == (number, start):
                    yield json.loads(encoded)

    def new_values(self, read: dict[str, int]) -> Iterator[Any]:
        """The values of all records beyond the positions in `read` (segment -> bytes), which move on to their end."""
        self.flush()
        self.refresh()
        with self._lock:
            segments = list(self._segments)
        for segment in segments:
            for line in self._lines(segment, read.get(segment, 0)):
                record = _parse(line)
                if record is None and not line.endswith(b"\n"):  # it is being written
                    break
                read[segment] = read.get(segment, 0) + len(line)
                if record is not None:
                    yield record["value"]

    def clear(self) -> None:
        """Forget all records, on disk too. To be called while no other process uses the journal.

        Raises:
            Outage: the folder cannot be written to.
        """
        self.close()
        with self._lock:
            try:
                for segment in [path for path in self._files.find(self._folder) if self._is_segment(path)]:
                    self._files.rm_file(segment)
            except OSError as error:
                raise _unusable(self._folder, error, "cleared") from error
            self._places, self._pending, self._own = Places(), {}, -1
            self._segments, self._numbers, self._read, self._contents = [], {}, {}, {}

    def flush(self) -> None:
        """Write what is kept back, if anything is."""
        with self._lock:
            self._write_pending()

    def close(self) -> None:
        """Write what is kept back and close the segment; the journal can still be used."""
        with self._lock:
            self._write_pending()
            if self._segment is not None:
                self._segment.close()
                self._segment = None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_segment(self, path: str) -> bool:
        name = str(path).rpartition("/")[2]
        return name.startswith(f"{self._name}.") and name.endswith(".jsonl")

    def _number(self, segment: str) -> int:
        if segment not in self._numbers:
            self._numbers[segment] = len(self._segments)
            self._segments.append(segment)
            self._read[segment] = 0
        return self._numbers[segment]

    def _scan(self, segments: list[str]) -> None:
        for first in range(0, len(segments), _READ_AT_ONCE):
            some = segments[first : first + _READ_AT_ONCE]
            for segment, lines in zip(some, self._read_at_once(some), strict=True):
                number = self._number(segment)
                for encoded, start, end in _records(lines, self._read[segment]):
                    if encoded:
                        self._places.scan(encoded, number, start, end - start)
                    self._read[segment] = end
        self._places.sort()

    def _read_at_once(self, segments: list[str]) -> Iterator[Iterable[bytes]]:
        """The lines of each that are not known yet."""
        if self._local:
            yield from (self._lines(segment, self._read.get(segment, 0)) for segment in segments)
            return
        for content in self._files.cat_ranges(segments, None, None, on_error="return"):
            if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                raise content
            yield content.splitlines(keepends=True) if isinstance(content, bytes) else ()

    def _lines(self, segment: str, start: int) -> Iterator[bytes]:
        """The lines of a segment, one at a time; none where it has vanished."""
        with suppress(FileNotFoundError), self._files.open(segment, "rb") as file:
            file.seek(start)
            yield from file

    def _read_record(self, encoded: bytes) -> bytes:
        """The line of a key; empty where there is none."""
        place = self._places.find(encoded)
        if place is None:
            return b""
        segment, start, end = self._segments[place[0]], place[1], place[1] + place[2]
        try:
            if self._local:
                with Path(segment).open("rb", buffering=0) as file:
                    return os.pread(file.fileno(), end - start, start)
            if segment not in self._contents:
                while len(self._contents) >= _READ_AT_ONCE:
                    del self._contents[next(iter(self._contents))]
                self._contents[segment] = self._files.cat_file(segment)
            return self._contents[segment][start:end]
        except FileNotFoundError:
            return b"vanished"
        except OSError as error:
            raise _unusable(self._folder, error, "read") from error

    def _append(self, records: dict[bytes, bytes]) -> None:
        data = b"".join(records.values())
        try:
            if self._segment is None:
                path = self._new_segment()
                self._segment = Path(path).open("xb", buffering=0)  # noqa: SIM115 (it stays open)
                self._own = self._number(path)
            written = self._segment.write(data)
            while written < len(data):
                written += self._segment.write(data[written:])
        except OSError as error:
            self._segment = None  # its last line may be torn: go on in another one
            raise _unusable(self._folder, error, "written") from error
        self._add_places(self._own, records)

    def _add_places(self, number: int, records: dict[bytes, bytes]) -> None:
        """Note records that were just written to the end of a segment."""
        path = self._segments[number]
        for encoded, line in records.items():
            self._places.add(encoded, number, self._read[path], len(line))
            self._read[path] += len(line)

    def _write_pending(self) -> None:
        if self._timer is not None and self._owner == os.getpid():
            self._timer.cancel()
        self._timer = None
        if not self._pending or self._owner != os.getpid():
            return
        if self._local:
            records, self._pending = self._pending, {}  # who put them is told if they cannot be written
            self._append(records)
            return
        path = self._new_segment()
        try:
            self._files.pipe_file(path, b"".join(self._pending.values()))
        except OSError as error:
            raise _unusable(self._folder, error, "written") from error
        self._add_places(self._number(path), self._pending)
        self._pending = {}

    def _write_soon(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(_BUFFERED_SECONDS, self._write_late)
            self._timer.daemon = True
            self._timer.start()

    def _write_late(self) -> None:
        with self._lock:
            try:
                self._write_pending()
            except Outage:  # told with the next record or at the end
                self._write_soon()

    def _new_segment(self) -> str:
        """A name that nobody else takes and that sorts by age."""
        return f"{self._folder}/{self._name}.{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.jsonl"


class _Together(threading.local):
    """The journals whose records a thread writes together, by their ids."""

    journals: dict[int, Journal] | None = None


_together = _Together()


@contextmanager
def written_together() -> Iterator[None]:
    """Have each journal write all that this thread puts within the block at its end, in one go.

    Raises:
        Outage: at its end; of the records of the block some may be lost.
    """
    journals: dict[int, Journal] = {}
    _together.journals = journals
    try:
        yield
    finally:
        _together.journals = None
        for journal in journals.values():
            journal.flush()


def _records(lines: Iterable[bytes], start: int = 0) -> Iterator[tuple[bytes, int, int]]:
    """Key, first byte and end of each record from `start` on; an empty key for a line that holds none."""
    for line in lines:
        end = start + len(line)
        if not line.endswith(b"\n") and _parse(line) is None:  # it is being written, or was torn
            return
        yield _key_of(line), start, end
        start = end


def _key_of(line: bytes) -> bytes:
    """The key as JSON spells it, found without reading the value; empty for a line that holds no record."""
    end = line.find(b'","value":')
    if line.startswith(b'{"key":"') and end > 0 and line.endswith((b"}\n", b"}")):
        return line[len(b'{"key":') : end + 1]
    record = _parse(line)
    return _encode(record["key"]) if record else b""


@lru_cache(maxsize=1024)  # a key is looked for in several journals before it is put
def _encode(key: str) -> bytes:
    if _PLAIN.fullmatch(key):  # as JSON would spell it
        return b'"%b"' % key.encode()
    return json.dumps(key).encode()


def _parse(line: bytes) -> dict[str, Any] | None:
    """A record, or None for a line that is torn."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and {"key", "value"} <= record.keys() else None


def _unusable(folder: str, error: OSError, done: str) -> Outage:
    return Outage(
        f"the journal cannot be {done} ({error.strerror or error})",
        where=folder,
        remedy="make room, or name a folder that you may write to",
    )
