"""Files on their way: nothing of one shows under its name before `finish`."""

import os
import posixpath
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol, cast

TEMPORARY_SUFFIX = ".tmp"
_SPOOL_BYTES = 64 << 20  # larger uploads are spooled to disk instead of memory


class Attempt(Protocol):
    """A file on its way: nothing of it shows before `finish`."""

    file: IO[bytes]

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


class LocalRename:
    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._temporary = path, path.with_name(temporary_name(path.name))
        self.file: IO[bytes] = self._temporary.open("wb")

    def finish(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        self._temporary.replace(self._path)
        _sync_folder(self._path.parent)

    def abandon(self) -> None:
        with suppress(OSError):  # a full disk fails again here, after the error that matters
            self.file.close()
        with suppress(OSError):
            self._temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut; some file systems do not sync folders, which is no reason to fail."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class RemoteRename:
    def __init__(self, system: Any, name: str):
        folder, base = posixpath.split(name)
        system.makedirs(folder, exist_ok=True)
        self._system, self._name, self._temporary = system, name, posixpath.join(folder, temporary_name(base))
        self.file: IO[bytes] = system.open(self._temporary, "wb")

    def finish(self) -> None:
        self.file.close()
        if self._system.exists(self._name):  # HDFS does not rename over an existing file
            self._system.rm_file(self._name)
        self._system.mv(self._temporary, self._name)

    def abandon(self) -> None:
        with suppress(Exception):
            self.file.close()
        with suppress(Exception):
            self._system.rm_file(self._temporary)


class Upload:
    """fsspec's own files upload what they have when an exception closes them; a spool does not."""

    def __init__(self, system: Any, name: str):
        self._system, self._name = system, name
        self.file: IO[bytes] = cast(IO[bytes], tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES))  # noqa: SIM115

    def finish(self) -> None:
        self.file.seek(0)
        with self._system.open(self._name, "wb") as upload:
            while block := self.file.read(8 << 20):
                upload.write(block)
        self.file.close()

    def abandon(self) -> None:
        self.file.close()


def temporary_name(name: str) -> str:
    """A hidden name beside `name` that no reader's glob matches and no other attempt takes."""
    return f".{name}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
