"""What has already been paid for: executions, answers and verdicts, append-only, by the hash of the whole question.

A journal is a folder of segments, JSON lines of `{"key": ..., "value": ...}`. Every process appends to a segment of its
own and reads all that were there when it opened the journal, so any number of processes may share a folder. A line that
a killed process left half-written is skipped: that question is asked again. Of several values of one key the one in the
oldest segment counts.

Where questions may have moved from one folder to another, a journal also looks into the folders beside its own.
"""

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import fsspec
from fsspec.implementations.local import LocalFileSystem

from musadata.errors import MusadataError

# Where nothing can be appended (object stores), records are kept back until so many make a segment of their own.
_BUFFERED_RECORDS = 32
_BUFFERED_BYTES = 1 << 20
# The segments there are small and many: so many are read at a time.
_READ_AT_ONCE = 64


class Journal:
    """A persistent mapping from keys to plain values (what JSON holds); safe for threads, forks and many processes.

    On a local folder each record is on its way to disk when `put` returns: it survives `kill -9`. Elsewhere it is when
    enough records are together, on `flush` and on `close`.
    """

    def __init__(self, folder: str | Path, name: str, elsewhere: "JournalIndex | None" = None):
        """Open or create the journal `name` in `folder` (a path or a URL that fsspec opens).

        What it lacks is looked for `elsewhere`, and kept here too once it is found.

        Raises:
            MusadataError: the folder cannot be made or read.
        """
        self._name, self._elsewhere = name, elsewhere
        self._files, self._folder = fsspec.core.url_to_fs(str(folder))
        self._local = isinstance(self._files, LocalFileSystem)
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._segment: BinaryIO | None = None
        self._found: list[str] = []  # segments that were there on opening
        self._owner = os.getpid()
        try:
            self._files.makedirs(self._folder, exist_ok=True)
            self._read_segments()
        except OSError as error:
            raise _unusable(self._folder, error, "opened") from error

    def get(self, key: str) -> Any | None:
        """The value of a key, or None if it was never put."""
        value = self._values.get(key)
        if value is None and self._elsewhere is not None:
            value = self._elsewhere.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: str, value: Any) -> None:
        """Remember a value for good. A key that is known keeps its value.

        Raises:
            MusadataError: the disk is full or the folder is not writable.
        """
        line = _line(key, value)
        with self._lock:
            if key in self._values:
                return
            self._write(line)
            self._values[key] = json.loads(line)["value"]  # the same as another process would read

    def forget(self, unwanted: Callable[[str], bool]) -> None:
        """Drop keys of those that were there on opening, on disk too: what nobody asks any more must not pile up.

        What another process appends at that moment may be lost with them, so only for what can be computed again.

        Raises:
            MusadataError: the disk is full or the folder is not writable.
        """
        with self._lock:
            kept = {key: value for key, value in self._values.items() if not unwanted(key)}
            if len(kept) == len(self._values):
                return
            old_segments, self._found = self._found, [self._new_segment()]
            try:
                self._files.pipe_file(self._found[0], b"".join(_line(key, value) for key, value in kept.items()))
                for old in old_segments:
                    with suppress(FileNotFoundError):  # another process has done the same
                        self._files.rm_file(old)
            except OSError as error:
                raise _unusable(self._folder, error, "written") from error
            self._values = kept

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def flush(self) -> None:
        """Write what is kept back, if anything is."""
        with self._lock:
            self._write_pending()

    def close(self) -> None:
        """Write what is kept back and close the segment; the journal can still be used."""
        self.flush()
        with self._lock:
            if self._segment is not None:
                self._segment.close()
                self._segment = None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_segments(self) -> None:
        self._files.invalidate_cache(self._folder)
        try:
            paths = [str(path) for path in self._files.ls(self._folder, detail=False)]
        except FileNotFoundError:  # object stores have no empty folders
            return
        names = [(path.rsplit("/", 1)[-1], path) for path in paths]
        self._found = [path for name, path in sorted(names) if _is_segment(name, self._name)]
        for segment in self._found:
            try:
                content = self._files.cat_file(segment)
            except FileNotFoundError:  # another process has just rewritten all into one
                self._read_segments()
                return
            for line in content.split(b"\n"):
                record = _parse(line)
                if record is not None:
                    self._values.setdefault(record["key"], record["value"])

    def _write(self, line: bytes) -> None:
        if self._owner != os.getpid():  # forked: the parent goes on with its segment and its pending records
            self._owner, self._segment = os.getpid(), None
            self._pending, self._pending_bytes = [], 0
        if self._local:
            self._append(line)
            return
        self._pending.append(line)
        self._pending_bytes += len(line)
        if len(self._pending) >= _BUFFERED_RECORDS or self._pending_bytes >= _BUFFERED_BYTES:
            self._write_pending()

    def _append(self, line: bytes) -> None:
        try:
            if self._segment is None:
                self._segment = Path(self._new_segment()).open("xb", buffering=0)  # noqa: SIM115 (it stays open)
            written = self._segment.write(line)
            while written < len(line):
                written += self._segment.write(line[written:])
        except OSError as error:
            self._segment = None  # its last line may be torn: go on in another one
            raise _unusable(self._folder, error, "written") from error

    def _write_pending(self) -> None:
        if not self._pending or self._owner != os.getpid():
            return
        try:
            self._files.pipe_file(self._new_segment(), b"".join(self._pending))
        except OSError as error:
            raise _unusable(self._folder, error, "written") from error
        self._pending, self._pending_bytes = [], 0

    def _new_segment(self) -> str:
        """A name that nobody else takes and that sorts by age."""
        return f"{self._folder}/{self._name}.{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.jsonl"


@dataclass(frozen=True, slots=True)  # there may be millions
class _Place:
    """Where a record stands: bytes `start` to `end` of a segment."""

    segment: str
    start: int
    end: int


class JournalIndex:
    """All journals of one name in the folders right below `folder`, to read; safe for threads.

    They are read through once, when a key is first asked for, and what is appended later is not seen. Only keys and
    places are held, a few hundred bytes a record, however large the values are.
    """

    def __init__(self, folder: str | Path, name: str):
        self._name = name
        self._files, self._folder = fsspec.core.url_to_fs(str(folder))
        self._at_once = 1 if isinstance(self._files, LocalFileSystem) else _READ_AT_ONCE
        self._lock = threading.Lock()
        self._places: dict[str, _Place] | None = None

    def get(self, key: str) -> Any | None:
        """The value of a key; None if no journal has it, or no longer.

        Raises:
            MusadataError: the journals cannot be read.
        """
        try:
            with self._lock:
                if self._places is None:
                    self._places = self._find_places()
            place = self._places.get(key)
            line = self._files.cat_file(place.segment, place.start, place.end) if place else b""
        except FileNotFoundError:  # the segment was there when the index was made
            return None
        except OSError as error:
            raise _unusable(self._folder, error, "read") from error
        record = _parse(line)
        return record["value"] if record is not None and record["key"] == key else None

    def _find_places(self) -> dict[str, _Place]:
        self._files.invalidate_cache(self._folder)
        names = [(str(path).rsplit("/", 1)[-1], str(path)) for path in self._files.find(self._folder)]
        segments = [path for name, path in sorted(names) if _is_segment(name, self._name)]
        places: dict[str, _Place] = {}
        for first in range(0, len(segments), self._at_once):
            some = segments[first : first + self._at_once]
            for segment, content in zip(some, self._read(some), strict=True):
                start = 0
                for line in content.splitlines(keepends=True):
                    record, end = _parse(line), start + len(line)
                    if record is not None:
                        places.setdefault(record["key"], _Place(segment, start, end))
                    start = end
        return places

    def _read(self, segments: list[str]) -> Iterator[bytes]:
        """The content of each, empty where it has vanished."""
        for content in self._files.cat_ranges(segments, None, None, on_error="return"):
            if isinstance(content, FileNotFoundError):
                yield b""
            elif isinstance(content, Exception):
                raise content
            else:
                yield content


def _unusable(folder: str, error: OSError, done: str) -> MusadataError:
    return MusadataError(
        f"the journal cannot be {done} ({error.strerror or error})",
        where=folder,
        remedy="make room, or name a folder that you may write to",
    )


def _is_segment(file: str, journal: str) -> bool:
    return file.startswith(f"{journal}.") and file.endswith(".jsonl")


def _line(key: str, value: Any) -> bytes:
    return json.dumps({"key": key, "value": value}, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> dict[str, Any] | None:
    """A record, or None for a line that is torn."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and {"key", "value"} <= record.keys() else None
