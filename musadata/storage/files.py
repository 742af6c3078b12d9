"""The one door to files: local paths, `gs://`, `hdfs://` and whatever else fsspec opens, as strings.

A file appears whole or not at all. Where a rename is atomic (local disks, HDFS) it is written under a hidden temporary
name, synced and renamed; object stores show a file only when its upload is complete, so there it is spooled to a local
temporary file and put in one go. What the file system refuses is a `MusadataError` that names the path.
"""

import hashlib
import os
import posixpath
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast

from musadata.errors import MACHINE_ERRORS, MusadataError, Outage

TEMPORARY_SUFFIX = ".tmp"
_RENAMES_ATOMICALLY = {"file", "local", "hdfs", "webhdfs", "viewfs", "sftp", "ssh"}
_SPOOL_BYTES = 64 << 20  # larger uploads are spooled to disk instead of memory


class HashingFile:
    """A binary file that counts and hashes (SHA-256) what is written to it, front to back."""

    def __init__(self, file: IO[bytes], path: str):
        self._file, self._path, self._hash = file, path, hashlib.sha256()
        self.bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._hash.update(view)
        with explain(self._path, "cannot be written"):
            self._file.write(view)
        self.bytes += len(view)
        return len(view)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Nothing: whoever made the file below closes it."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def join(folder: str, *names: str) -> str:
    """A path below `folder`, which may be a URL."""
    return posixpath.join(folder, *names)


def absolute(path: str) -> str:
    """A local path from the root, so that workers elsewhere mean the same file; a URL as it is."""
    local = _local(path)
    return path if local is None else str(local.expanduser().absolute())


@contextmanager
def create(path: str) -> Iterator[HashingFile]:
    """Write a file that appears under `path` when the block ends well, and not at all when it raises.

    Raises:
        MusadataError: the file system refuses (read-only, no space, a file where a folder should be, no access).
    """
    with explain(path, "cannot be written"):
        attempt = _begin(path)
    try:
        yield HashingFile(attempt.file, path)
        with explain(path, "cannot be written"):
            attempt.finish()
    except BaseException:
        attempt.abandon()
        raise


class _Attempt(Protocol):
    """A file on its way: nothing of it shows before `finish`."""

    file: IO[bytes]

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


def _begin(path: str) -> _Attempt:
    local = _local(path)
    if local is not None:
        return _LocalRename(local)
    system, name = _remote(path)
    if _RENAMES_ATOMICALLY.isdisjoint(_protocols(system)):
        return _Upload(system, name)
    return _RemoteRename(system, name)


class _LocalRename:
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


class _RemoteRename:
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


class _Upload:
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


def write_atomic(path: str, data: bytes) -> None:
    """Write a whole small file; see `create`."""
    with create(path) as file:
        file.write(data)


def write_if_changed(path: str, data: bytes) -> None:
    """Write a whole small file unless it holds these bytes already: what is complete may lie on a read-only mount."""
    if size(path) != len(data) or read_bytes(path) != data:
        write_atomic(path, data)


def create_if_absent(path: str, data: bytes) -> bool:
    """Write a small file on a remote store under the condition that there is none; whether it was written."""
    with explain(path, "cannot be written"):
        system, name = _remote(path)
        try:
            system.pipe_file(name, data, mode="create")
        except FileExistsError:
            return False
        except TypeError:  # a store that knows no conditions: a look first is the best that there is
            if system.exists(name):
                return False
            system.pipe_file(name, data)
    return True


def read_bytes(path: str) -> bytes:
    """The whole file. Raises MusadataError where it is absent or cannot be read."""
    with open_for_reading(path) as file:
        return file.read()


@contextmanager
def open_for_reading(path: str) -> Iterator[BinaryIO]:
    """Open for reading, seekable, as Parquet needs it. Raises MusadataError where that is not possible."""
    with explain(path, "cannot be read"):
        local = _local(path)
        if local is not None:
            file: BinaryIO = local.open("rb")
        else:
            system, name = _remote(path)
            file = system.open(name, "rb")
    with file:
        yield file


def sha256(path: str) -> str:
    """SHA-256 of a file, in hex, a block at a time."""
    digest = hashlib.sha256()
    with open_for_reading(path) as file, explain(path, "cannot be read"):
        while block := file.read(8 << 20):
            digest.update(block)
    return digest.hexdigest()


def size(path: str) -> int | None:
    """Bytes of a file, None where there is no such file."""
    with explain(path, "cannot be looked at"):
        local = _local(path)
        if local is not None:
            return local.stat().st_size if local.is_file() else None
        system, name = _remote(path)
        system.invalidate_cache(posixpath.dirname(name))  # other workers write as well
        with suppress(FileNotFoundError):
            info = system.info(name)
            return int(info["size"]) if info["type"] == "file" else None
        return None


def exists(path: str) -> bool:
    """Whether there is a file of that name (a folder is not one)."""
    return size(path) is not None


def is_folder(path: str) -> bool:
    """Whether there is a folder of that name; on an object store: whether anything lies below it."""
    with explain(path, "cannot be looked at"):
        local = _local(path)
        if local is not None:
            return local.is_dir()
        system, name = _remote(path)
        return bool(system.isdir(name))


def list_names(folder: str) -> list[str]:
    """Names of the files and folders right below a folder, sorted, hidden ones too; none where there is no folder."""
    with explain(folder, "cannot be listed"):
        local = _local(folder)
        if local is not None:
            return sorted(entry.name for entry in local.iterdir()) if local.is_dir() else []
        system, name = _remote(folder)
        system.invalidate_cache()
        try:
            entries = system.ls(name, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        below = {entry.rstrip("/") for entry in entries} - {name.rstrip("/")}  # listing a file gives itself
        return sorted({posixpath.basename(entry) for entry in below} - {""})


def remove(path: str) -> None:
    """Delete a file; nothing happens where there is none."""
    with explain(path, "cannot be deleted"):
        local = _local(path)
        if local is not None:
            local.unlink(missing_ok=True)
            return
        system, name = _remote(path)
        with suppress(FileNotFoundError):
            system.rm_file(name)


def local_name(path: str) -> str | None:
    """The name of a file on this machine for libraries that open it themselves, None for a URL."""
    local = _local(path)
    return None if local is None else str(local)


def _local(path: str) -> Path | None:
    """The path on this machine, None where it is a URL of another file system."""
    if path.startswith("file://"):
        return Path(path.removeprefix("file://"))
    return None if "://" in path else Path(path)


def _remote(path: str) -> tuple[Any, str]:
    import fsspec  # a local run does without its import

    try:
        system, name = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise MusadataError(
            f"cannot be opened ({error})", where=path, remedy="check the protocol, or install its fsspec package"
        ) from error
    return system, name


def _protocols(system: Any) -> set[str]:
    return {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)


@contextmanager
def explain(path: str, what: str) -> Iterator[None]:
    """Turn what a file system says into an error that a user can mend, an `Outage` where the machine is short of
    something."""
    try:
        yield
    except FileNotFoundError as error:
        raise MusadataError(f"{what}: there is no such file", where=path, remedy="check the path") from error
    except (NotADirectoryError, FileExistsError) as error:
        raise MusadataError(
            f"{what}: a file stands where a folder should be", where=path, remedy="name another folder"
        ) from error
    except IsADirectoryError as error:
        raise MusadataError(
            f"{what}: a folder stands where a file should be", where=path, remedy="move it away"
        ) from error
    except PermissionError as error:
        raise MusadataError(f"{what}: permission denied", where=path, remedy="check who may write there") from error
    except OSError as error:
        kind = Outage if error.errno in MACHINE_ERRORS else MusadataError
        text = f"{what} ({error.strerror or error})"
        raise kind(text, where=path, remedy="mend it and run the same command again") from error
